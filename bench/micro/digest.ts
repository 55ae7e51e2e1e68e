// When does a worker thread pay for hashing? Hashes several sizes inline and through the pool, as bytes and as base64
// text, and measures what each costs the event loop and the whole process. Justifies HASH_OFFLOAD_BYTES in
// src/workers/pool.ts and STRIDE_BYTES in src/storage/audio-digest.ts.
// Run: node bench/micro/digest.ts

import { cpus } from 'node:os'
import { Piscina } from 'piscina'
import { hashLeaves } from '../../src/workers/leaf-hash.ts'
import type { LeavesTask } from '../../src/workers/leaves.ts'

const KIB = 1024
const MIB = 1024 * KIB
const SIZES = [16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, MIB, 4 * MIB]
/** Bytes per measurement, and measurements per size; the median is reported. */
const VOLUME = 64 * MIB
const ROUNDS = 7

interface Row {
  readonly kib: number
  readonly encoding: LeavesTask['encoding']
  readonly way: 'inline' | 'worker'
  readonly loop_us_per_task: number
  readonly loop_us_per_mib: number
  readonly cpu_us_per_mib: number
  readonly wall_us_per_mib: number
}

// As a body is held: blocks of a MiB, of which a larger task takes several.
const blocks = Array.from({ length: 4 }, () => new Uint8Array(new SharedArrayBuffer(MIB)))
const text = Buffer.alloc((MIB / 4) * 3, 'larkway').toString('base64')
for (const block of blocks) Buffer.from(block.buffer).write(text, 'latin1')

const pool = new Piscina<LeavesTask, Uint8Array>({
  filename: new URL('../../src/workers/leaves.ts', import.meta.url).href,
  name: 'hash',
  minThreads: 1,
  maxThreads: 1,
})

/** One at a time, with a turn of the loop between them, as a digest asks. */
async function measure(way: Row['way'], encoding: Row['encoding'], size: number): Promise<Row> {
  const views = size <= MIB ? [blocks[0]!.subarray(0, size)] : blocks.slice(0, size / MIB)
  const count = VOLUME / size
  const startCpu = process.cpuUsage()
  const startLoop = performance.eventLoopUtilization()
  const startMs = performance.now()
  for (let i = 0; i < count; i += 1) {
    if (way === 'worker') await pool.run({ views, encoding })
    else {
      hashLeaves(views, encoding)
      await new Promise(setImmediate)
    }
  }
  const wallMs = performance.now() - startMs
  const { user, system } = process.cpuUsage(startCpu)
  const { active } = performance.eventLoopUtilization(startLoop)
  const mib = VOLUME / MIB
  return {
    kib: size / KIB,
    encoding,
    way,
    loop_us_per_task: Math.round((active * 1000) / count),
    loop_us_per_mib: Math.round((active * 1000) / mib),
    cpu_us_per_mib: Math.round((user + system) / mib),
    wall_us_per_mib: Math.round((wallMs * 1000) / mib),
  }
}

/** Rounds of the two ways alternate, so that a busy machine is unkind to both. */
async function compare(encoding: Row['encoding'], size: number): Promise<Row[]> {
  const rounds: Record<Row['way'], Row[]> = { inline: [], worker: [] }
  for (let i = 0; i <= ROUNDS; i += 1) {
    for (const way of ['inline', 'worker'] as const) {
      const row = await measure(way, encoding, size)
      if (i > 0) rounds[way].push(row)
    }
  }
  return (['inline', 'worker'] as const).map((way) => median(rounds[way]))
}

function median(rows: Row[]): Row {
  return rows.sort((a, b) => a.loop_us_per_mib - b.loop_us_per_mib)[Math.floor(rows.length / 2)]!
}

const rows: Row[] = []
for (const encoding of ['identity', 'base64'] as const)
  for (const size of SIZES) rows.push(...(await compare(encoding, size)))
await pool.destroy()
console.table(rows)
console.log(JSON.stringify({ bench: 'digest', node: process.version, cpu: cpus()[0]?.model, rows }))
