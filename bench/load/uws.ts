import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/** uWebSockets.js in the build that loads here, as the server takes it. */
export function loadUws(): typeof import('uWebSockets.js') {
  try {
    return require('uWebSockets.js')
  } catch {
    return require('uWebSockets.js-glibc227')
  }
}
