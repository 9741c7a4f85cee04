# Fingers: every target forwards to meson or script/. `make demo` and `make test` set up everything they need.
.PHONY: all run demo test test-all bench lint asan tsan fuzz docs format clean

all:
	script/build

run:
	script/build && build/release/src/app/fenpay serve --dev

demo:
	script/build && build/release/src/app/fenpay demo

test:
	script/test

test-all:
	script/test --all

bench:
	script/bench

lint:
	script/lint

asan:
	script/test --sanitize address,undefined

tsan:
	script/test --sanitize thread

fuzz:
	script/fuzz

docs:
	script/docs

format:
	script/setup lint && git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	rm -rf build
