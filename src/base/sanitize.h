/* sanitize.h -- which sanitizer this build runs under; private to base. */
#ifndef FENPAY_SANITIZE_H
#define FENPAY_SANITIZE_H

#ifndef __has_feature
#define __has_feature(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SANITIZE_ADDRESS 1
#else
#define SANITIZE_ADDRESS 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define SANITIZE_THREAD 1
#else
#define SANITIZE_THREAD 0
#endif

#endif
