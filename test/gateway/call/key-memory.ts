import { writeSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { writeHeapSnapshot } from 'node:v8'
import { Cancellation } from '../../../src/contracts/cancellation.ts'
import type { ApiKeys, Principal } from '../../../src/contracts/catalog.ts'
import { systemClock } from '../../../src/contracts/time.ts'
import { authenticate } from '../../../src/gateway/call/authentication.ts'
import { CallContext } from '../../../src/gateway/call/context/call-context.ts'
import { hashKey, makeKey } from '../../../src/gateway/catalog/key.ts'

// Authenticates keys, tells the first one, and writes what is in memory then: node --expose-gc key-memory.ts FILE

const principal = {
  route: { name: 'a', version: 'pv_1' },
  key: { expiresAtMs: null },
} as unknown as Principal

/** @returns the hash of the key that was used */
function use(isTold: boolean): string {
  const key = makeKey()
  const keys = { find: () => principal } as unknown as ApiKeys
  const context = new CallContext({ requestId: 'r', signal: new Cancellation() })
  // As it comes from a socket: no other text is a part of it.
  authenticate({ keys, clock: systemClock }, context, Buffer.from(`Bearer ${key}`).toString('latin1'))
  if (isTold) writeSync(1, key)
  return hashKey(key)
}

const sha256 = use(true)
// JavaScript remembers the last text that an expression matched.
use(false)
await turn()
globalThis.gc?.()
writeHeapSnapshot(process.argv[2])
process.exitCode = sha256.length === 64 ? 0 : 1
