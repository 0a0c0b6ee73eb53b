/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of one 32-byte message per item: integer work, rotations, a table of constants. */
__constant uint K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

#define ROTATE_RIGHT(x, n) rotate((uint)(x), (uint)(32 - (n)))

__kernel void sha256(__global const uint *messages, __global uint *digests)
{
    size_t item = get_global_id(0);
    uint w[16];
    uint h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], last = h[7];

    for (int i = 0; i < 8; i++)
        w[i] = messages[item * 8 + i];
    w[8] = 0x80000000;
    for (int i = 9; i < 15; i++)
        w[i] = 0;
    w[15] = 256;
    for (int i = 0; i < 64; i++) {
        uint word = w[i % 16];

        if (i >= 16) {
            uint low = w[(i + 1) % 16], high = w[(i + 14) % 16];

            word += (ROTATE_RIGHT(low, 7) ^ ROTATE_RIGHT(low, 18) ^ low >> 3) + w[(i + 9) % 16] +
                    (ROTATE_RIGHT(high, 17) ^ ROTATE_RIGHT(high, 19) ^ high >> 10);
            w[i % 16] = word;
        }
        uint t1 = last + (ROTATE_RIGHT(e, 6) ^ ROTATE_RIGHT(e, 11) ^ ROTATE_RIGHT(e, 25)) + bitselect(g, f, e) + K[i] + word;
        uint t2 = (ROTATE_RIGHT(a, 2) ^ ROTATE_RIGHT(a, 13) ^ ROTATE_RIGHT(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));

        last = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    digests[item * 8 + 0] = h[0] + a;
    digests[item * 8 + 1] = h[1] + b;
    digests[item * 8 + 2] = h[2] + c;
    digests[item * 8 + 3] = h[3] + d;
    digests[item * 8 + 4] = h[4] + e;
    digests[item * 8 + 5] = h[5] + f;
    digests[item * 8 + 6] = h[6] + g;
    digests[item * 8 + 7] = h[7] + last;
}
