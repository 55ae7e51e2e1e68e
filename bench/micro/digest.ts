// When does a worker thread pay for hashing? Hashes several sizes inline and through the pool, as bytes and as base64
// text, and measures what each costs the event loop and the whole process. Justifies HASH_OFFLOAD_BYTES in
// src/gateway/workers/pool.ts and STRIDE_BYTES in src/gateway/storage/audio-digest.ts.
// Run: node bench/micro/digest.ts

import { cpus } from 'node:os'
import { Piscina } from 'piscina'
import { hashLeaves, type LeavesTask } from '../../src/gateway/workers/leaf-hash.ts'

import { compareWays } from './ways.ts'

const KIB = 1024
const MIB = 1024 * KIB
const SIZES = [16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, MIB, 4 * MIB]
// As a body is held: blocks of a MiB, of which a larger task takes several.
const blocks = Array.from({ length: 4 }, () => new Uint8Array(new SharedArrayBuffer(MIB)))
const text = Buffer.alloc((MIB / 4) * 3, 'larkway').toString('base64')
for (const block of blocks) Buffer.from(block.buffer).write(text, 'latin1')

const pool = new Piscina<LeavesTask, Uint8Array>({
  filename: new URL('../../src/gateway/workers/leaf-hash.ts', import.meta.url).href,
  name: 'hash',
  minThreads: 1,
  maxThreads: 1,
})

const rows: object[] = []
for (const encoding of ['identity', 'base64'] as const) {
  for (const size of SIZES) {
    const views = size <= MIB ? [blocks[0]!.subarray(0, size)] : blocks.slice(0, size / MIB)
    const costs = await compareWays(size, {
      inline: () => void hashLeaves(views, encoding),
      worker: () => pool.run({ views, encoding }),
    })
    const perTask = size / MIB
    rows.push(
      ...costs.map((cost) => {
        const loop_us_per_task = Math.round(cost.loop_us_per_mib * perTask)
        return { kib: size / KIB, encoding, loop_us_per_task, ...cost }
      }),
    )
  }
}
await pool.destroy()
console.table(rows)
console.log(JSON.stringify({ bench: 'digest', node: process.version, cpu: cpus()[0]?.model, rows }))
