// When does a worker thread pay? Decodes base64 of several sizes inline and through the pool, and measures what each
// costs the event loop and the whole process. Justifies OFFLOAD_BYTES in src/workers/pool.ts.
// Run: node bench/micro/offload.ts

import { cpus } from 'node:os'
import { Piscina } from 'piscina'
import type { Base64Task } from '../../src/workers/base64.ts'
import { decodeBase64 } from '../../src/workers/base64-text.ts'

const KIB = 1024
const MIB = 1024 * KIB
const SIZES = [64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 768 * KIB, MIB]
/** Text per measurement, and measurements per size; the median is reported. */
const VOLUME = 64 * MIB
const ROUNDS = 7

interface Row {
  readonly text_kib: number
  readonly way: 'inline' | 'worker'
  readonly loop_us_per_mib: number
  readonly cpu_us_per_mib: number
  readonly wall_us_per_mib: number
}

const text = new Uint8Array(new SharedArrayBuffer(MIB))
const out = new Uint8Array(new SharedArrayBuffer(MIB))
Buffer.from(text.buffer).write(Buffer.alloc((MIB / 4) * 3, 'larkway').toString('base64'), 'latin1')

const pool = new Piscina<Base64Task, number>({
  filename: new URL('../../src/workers/base64.ts', import.meta.url).href,
  name: 'decode',
  minThreads: 1,
  maxThreads: 1,
})

/** One at a time, with a turn of the loop between them, as a sender that follows backpressure asks. */
async function measure(way: Row['way'], size: number): Promise<Row> {
  const input = text.subarray(0, size)
  const count = VOLUME / size
  const startCpu = process.cpuUsage()
  const startLoop = performance.eventLoopUtilization()
  const startMs = performance.now()
  for (let i = 0; i < count; i += 1) {
    if (way === 'worker') await pool.run({ text: input, out })
    else {
      decodeBase64(input, out)
      await new Promise(setImmediate)
    }
  }
  const wallMs = performance.now() - startMs
  const { user, system } = process.cpuUsage(startCpu)
  const { active } = performance.eventLoopUtilization(startLoop)
  const mib = VOLUME / MIB
  return {
    text_kib: size / KIB,
    way,
    loop_us_per_mib: Math.round((active * 1000) / mib),
    cpu_us_per_mib: Math.round((user + system) / mib),
    wall_us_per_mib: Math.round((wallMs * 1000) / mib),
  }
}

/** Rounds of the two ways alternate, so that a busy machine is unkind to both. */
async function compare(size: number): Promise<Row[]> {
  const rounds: Record<Row['way'], Row[]> = { inline: [], worker: [] }
  for (let i = 0; i <= ROUNDS; i += 1) {
    for (const way of ['inline', 'worker'] as const) {
      const row = await measure(way, size)
      if (i > 0) rounds[way].push(row)
    }
  }
  return (['inline', 'worker'] as const).map((way) => median(rounds[way]))
}

function median(rows: Row[]): Row {
  return rows.sort((a, b) => a.loop_us_per_mib - b.loop_us_per_mib)[Math.floor(rows.length / 2)]!
}

const rows: Row[] = []
for (const size of SIZES) rows.push(...(await compare(size)))
await pool.destroy()
console.table(rows)
console.log(JSON.stringify({ bench: 'offload', node: process.version, cpu: cpus()[0]?.model, rows }))
