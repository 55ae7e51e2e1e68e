// Replaces, in the bundle of tap (type-cache.mjs), the package `tcompare`, which writes both values down as texts to
// compare them. What is certainly the same or matches is found out without; all else, and with it what a failure
// shows, is left to the package.

import { isDeepStrictEqual } from 'node:util'
import * as tcompare from '../node_modules/tcompare/dist/esm/index.js'

/** The rest that tap uses, as it is. */
export const { format, has, hasStrict, matchOnly, matchOnlyStrict, matchStrict, strict } = tcompare

const ALIKE = Object.freeze({ match: true, diff: '' })
/** Deeper patterns may be circles. */
const DEPTH_MAX = 20

export function same(found, wanted, options) {
  return isDeepStrictEqual(found, wanted) ? ALIKE : tcompare.same(found, wanted, options)
}

export function match(found, pattern, options) {
  return surelyMatches(found, pattern, 0) ? ALIKE : tcompare.match(found, pattern, options)
}

/** @returns false also where it is not certain */
function surelyMatches(found, pattern, depth) {
  if (found === pattern) return true
  if (typeof found === 'string') {
    if (typeof pattern === 'string') return pattern !== '' && found.includes(pattern)
    // Those with a place of their own would be another expression the second time.
    return pattern instanceof RegExp && !pattern.global && !pattern.sticky && pattern.test(found)
  }
  if (depth > DEPTH_MAX) return false
  const both = (is) => is(found) && is(pattern)
  if (!both(Array.isArray) && !both(isPlain)) return false
  // An array may have holes, which its keys leave out.
  const keys = Array.isArray(pattern) ? [...pattern.keys()] : Object.keys(pattern)
  return keys.every((key) => Object.hasOwn(found, key) && surelyMatches(found[key], pattern[key], depth + 1))
}

function isPlain(value) {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
