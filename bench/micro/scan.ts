/**
 * Cost of scanning a body on the event loop, per GB of the raw body and without the copy into the spool. The goals
 * are those of the design: multipart 0.12, base64 0.25 CPU seconds per GB. `hostile` bodies are made to be slow.
 *
 *   node bench/micro/scan.ts
 */
import { cpus } from 'node:os'
import { DEFAULT_LIMITS } from '../../src/contracts/limits.ts'
import { parseHeaderValue } from '../../src/gateway/edge/header-value.ts'
import { JsonAudioScanner } from '../../src/gateway/edge/json-audio.ts'
import { MultipartScanner } from '../../src/gateway/edge/multipart.ts'
import type { BodyScanner } from '../../src/gateway/edge/scanner.ts'
import { multipart, noise, slices } from '../../test/support/bodies.ts'

/** The two sizes that uWebSockets.js hands out most: a socket's usual read, and its whole receive buffer. */
const CHUNK_BYTES = [65_536, 524_288]
const RUNS = 15
const AUDIO = noise(25 * 1024 * 1024)

interface Subject {
  readonly name: string
  /** CPU seconds per GB; null: no goal. */
  readonly goal: number | null
  readonly body: Buffer
  readonly scanner: () => BodyScanner
}

function formOf(name: string, goal: number | null, audio: Buffer, boundary: string): Subject {
  const { contentType, body } = multipart([{ name: 'file', body: audio }], { boundary })
  const type = parseHeaderValue(contentType)!
  return { name, goal, body, scanner: () => new MultipartScanner(type, DEFAULT_LIMITS) }
}

function jsonOf(name: string, goal: number | null, text: string): Subject {
  const body = Buffer.from(`{"language":"de","audio":{"base64":"${text}"},"diarization":true}`)
  return { name, goal, body, scanner: () => new JsonAudioScanner(DEFAULT_LIMITS) }
}

function subjects(): Subject[] {
  const base64 = AUDIO.toString('base64')
  return [
    formOf('multipart', 0.12, AUDIO, '------------------------8f0c2b7d1e3a4f56'),
    formOf('multipart, hostile', null, Buffer.alloc(AUDIO.length, '\r\n--x-'), 'x'),
    jsonOf('base64', 0.25, base64),
    jsonOf('base64, slashes escaped', null, base64.replace(/\//g, '\\/')),
    jsonOf('base64, in lines', null, base64.replace(/.{76}/g, '$&\\n')),
    jsonOf('base64, hostile', null, '\\u0041'.repeat(AUDIO.length / 6)),
  ]
}

function measure({ body, scanner }: Subject, chunkBytes: number) {
  const chunks = slices(body, chunkBytes)
  const cpuSeconds: number[] = []
  for (let run = 0; run < RUNS; run++) {
    const before = process.cpuUsage()
    const subject = scanner()
    for (const chunk of chunks) subject.scan(chunk)
    subject.finish()
    const { user, system } = process.cpuUsage(before)
    cpuSeconds.push((user + system) / 1e6)
  }
  const median = cpuSeconds.sort((a, b) => a - b)[RUNS >> 1]!
  const gigabytes = body.length / 1e9
  return {
    mb_per_s: Math.round((gigabytes * 1000) / median),
    cpu_s_per_gb: Number((median / gigabytes).toFixed(4)),
  }
}

const results = subjects().flatMap((subject) =>
  CHUNK_BYTES.map((chunkBytes) => {
    const { name, goal } = subject
    const measured = measure(subject, chunkBytes)
    return {
      name,
      chunk_bytes: chunkBytes,
      ...measured,
      goal,
      met: goal === null || measured.cpu_s_per_gb <= goal,
    }
  }),
)
console.log(JSON.stringify({ node: process.version, cpu: cpus()[0]?.model, runs: RUNS, results }, null, 2))
process.exitCode = results.every(({ met }) => met) ? 0 : 1
