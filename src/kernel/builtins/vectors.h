/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the vector overloads of a scalar function, element by element. Kernels are vectorized across work-items, for
 *       which scalar code is best; elsewhere LLVM combines the elements to vector operations.
 * Never: holds mathematics.
 */
#ifndef FACET_KERNEL_BUILTINS_VECTORS_H
#define FACET_KERNEL_BUILTINS_VECTORS_H

#define PUBLIC __attribute__((overloadable))

#define VECTORS1(name, T)                                                                                              \
    PUBLIC T##2 name(T##2 x)                                                                                           \
    {                                                                                                                  \
        return (T##2)(name(x.x), name(x.y));                                                                           \
    }                                                                                                                  \
    PUBLIC T##3 name(T##3 x)                                                                                           \
    {                                                                                                                  \
        return (T##3)(name(x.x), name(x.y), name(x.z));                                                                \
    }                                                                                                                  \
    PUBLIC T##4 name(T##4 x)                                                                                           \
    {                                                                                                                  \
        return (T##4)(name(x.x), name(x.y), name(x.z), name(x.w));                                                     \
    }                                                                                                                  \
    PUBLIC T##8 name(T##8 x)                                                                                           \
    {                                                                                                                  \
        return (T##8)(name(x.lo), name(x.hi));                                                                         \
    }                                                                                                                  \
    PUBLIC T##16 name(T##16 x)                                                                                         \
    {                                                                                                                  \
        return (T##16)(name(x.lo), name(x.hi));                                                                        \
    }

/* `U` is the type of the second argument. */
#define VECTORS2(name, T, U)                                                                                           \
    PUBLIC T##2 name(T##2 x, U##2 y)                                                                                   \
    {                                                                                                                  \
        return (T##2)(name(x.x, y.x), name(x.y, y.y));                                                                 \
    }                                                                                                                  \
    PUBLIC T##3 name(T##3 x, U##3 y)                                                                                   \
    {                                                                                                                  \
        return (T##3)(name(x.x, y.x), name(x.y, y.y), name(x.z, y.z));                                                 \
    }                                                                                                                  \
    PUBLIC T##4 name(T##4 x, U##4 y)                                                                                   \
    {                                                                                                                  \
        return (T##4)(name(x.x, y.x), name(x.y, y.y), name(x.z, y.z), name(x.w, y.w));                                 \
    }                                                                                                                  \
    PUBLIC T##8 name(T##8 x, U##8 y)                                                                                   \
    {                                                                                                                  \
        return (T##8)(name(x.lo, y.lo), name(x.hi, y.hi));                                                             \
    }                                                                                                                  \
    PUBLIC T##16 name(T##16 x, U##16 y)                                                                                \
    {                                                                                                                  \
        return (T##16)(name(x.lo, y.lo), name(x.hi, y.hi));                                                            \
    }

/* Makes the function for pointers into each of these address spaces. */
#define IN_SPACES(macro) macro(private) macro(global) macro(local)

/* For functions with a second result, of type `U`, through a pointer. */
#define VECTORS_POINTER(name, T, U, space)                                                                             \
    PUBLIC T##2 name(T##2 x, space U##2 * more)                                                                        \
    {                                                                                                                  \
        U a, b;                                                                                                        \
        T##2 result = (T##2)(name(x.x, &a), name(x.y, &b));                                                            \
        *more = (U##2)(a, b);                                                                                          \
        return result;                                                                                                 \
    }                                                                                                                  \
    PUBLIC T##3 name(T##3 x, space U##3 * more)                                                                        \
    {                                                                                                                  \
        U a, b, c;                                                                                                     \
        T##3 result = (T##3)(name(x.x, &a), name(x.y, &b), name(x.z, &c));                                             \
        *more = (U##3)(a, b, c);                                                                                       \
        return result;                                                                                                 \
    }                                                                                                                  \
    PUBLIC T##4 name(T##4 x, space U##4 * more)                                                                        \
    {                                                                                                                  \
        U##2 a, b;                                                                                                     \
        T##4 result = (T##4)(name(x.lo, &a), name(x.hi, &b));                                                          \
        *more = (U##4)(a, b);                                                                                          \
        return result;                                                                                                 \
    }                                                                                                                  \
    PUBLIC T##8 name(T##8 x, space U##8 * more)                                                                        \
    {                                                                                                                  \
        U##4 a, b;                                                                                                     \
        T##8 result = (T##8)(name(x.lo, &a), name(x.hi, &b));                                                          \
        *more = (U##8)(a, b);                                                                                          \
        return result;                                                                                                 \
    }                                                                                                                  \
    PUBLIC T##16 name(T##16 x, space U##16 * more)                                                                     \
    {                                                                                                                  \
        U##8 a, b;                                                                                                     \
        T##16 result = (T##16)(name(x.lo, &a), name(x.hi, &b));                                                        \
        *more = (U##16)(a, b);                                                                                         \
        return result;                                                                                                 \
    }

#define VECTORS2_POINTER(name, T, U, space)                                                                            \
    PUBLIC T##2 name(T##2 x, T##2 y, space U##2 * more)                                                                \
    {                                                                                                                  \
        U a, b;                                                                                                        \
        T##2 result = (T##2)(name(x.x, y.x, &a), name(x.y, y.y, &b));                                                  \
        *more = (U##2)(a, b);                                                                                          \
        return result;                                                                                                 \
    }                                                                                                                  \
    PUBLIC T##3 name(T##3 x, T##3 y, space U##3 * more)                                                                \
    {                                                                                                                  \
        U a, b, c;                                                                                                     \
        T##3 result = (T##3)(name(x.x, y.x, &a), name(x.y, y.y, &b), name(x.z, y.z, &c));                              \
        *more = (U##3)(a, b, c);                                                                                       \
        return result;                                                                                                 \
    }                                                                                                                  \
    PUBLIC T##4 name(T##4 x, T##4 y, space U##4 * more)                                                                \
    {                                                                                                                  \
        U##2 a, b;                                                                                                     \
        T##4 result = (T##4)(name(x.lo, y.lo, &a), name(x.hi, y.hi, &b));                                              \
        *more = (U##4)(a, b);                                                                                          \
        return result;                                                                                                 \
    }                                                                                                                  \
    PUBLIC T##8 name(T##8 x, T##8 y, space U##8 * more)                                                                \
    {                                                                                                                  \
        U##4 a, b;                                                                                                     \
        T##8 result = (T##8)(name(x.lo, y.lo, &a), name(x.hi, y.hi, &b));                                              \
        *more = (U##8)(a, b);                                                                                          \
        return result;                                                                                                 \
    }                                                                                                                  \
    PUBLIC T##16 name(T##16 x, T##16 y, space U##16 * more)                                                            \
    {                                                                                                                  \
        U##8 a, b;                                                                                                     \
        T##16 result = (T##16)(name(x.lo, y.lo, &a), name(x.hi, y.hi, &b));                                            \
        *more = (U##16)(a, b);                                                                                         \
        return result;                                                                                                 \
    }

#endif
