// When does a worker thread pay? Decodes base64 of several sizes inline and through the pool, and measures what each
// costs the event loop and the whole process. Justifies OFFLOAD_BYTES in src/gateway/workers/pool.ts.
// Run: node bench/micro/offload.ts

import { cpus } from 'node:os'
import { Piscina } from 'piscina'
import { type Base64Task, decodeBase64 } from '../../src/gateway/workers/base64.ts'

import { compareWays } from './ways.ts'

const KIB = 1024
const MIB = 1024 * KIB
const SIZES = [64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 768 * KIB, MIB]
const text = new Uint8Array(new SharedArrayBuffer(MIB))
const out = new Uint8Array(new SharedArrayBuffer(MIB))
Buffer.from(text.buffer).write(Buffer.alloc((MIB / 4) * 3, 'larkway').toString('base64'), 'latin1')

const pool = new Piscina<Base64Task, number>({
  filename: new URL('../../src/gateway/workers/base64.ts', import.meta.url).href,
  name: 'decode',
  minThreads: 1,
  maxThreads: 1,
})

const rows: object[] = []
for (const size of SIZES) {
  const input = text.subarray(0, size)
  const costs = await compareWays(size, {
    inline: () => void decodeBase64(input, out),
    worker: () => pool.run({ text: input, out }),
  })
  rows.push(...costs.map((cost) => ({ text_kib: size / KIB, ...cost })))
}
await pool.destroy()
console.table(rows)
console.log(JSON.stringify({ bench: 'offload', node: process.version, cpu: cpus()[0]?.model, rows }))
