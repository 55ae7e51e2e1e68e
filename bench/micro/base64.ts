// How large may a slice be that is decoded at a time? Decodes the same text with several sizes of slice, and whole
// through one string. Justifies SLICE_BYTES in src/gateway/workers/base64.ts and src/gateway/storage/stages.ts.
// Run: node bench/micro/base64.ts

import { cpus } from 'node:os'

const KIB = 1024
const MIB = 1024 * KIB
const SLICES = [4, 16, 64, 128, 256, 512, 1024].map((kib) => kib * KIB)
const AUDIO_BYTES = 24 * MIB
const ROUNDS = 9

const audio = Buffer.alloc(AUDIO_BYTES, 'larkway')
const text = Buffer.from(audio.toString('base64'), 'latin1')
const out = Buffer.alloc(AUDIO_BYTES)

function inSlices(size: number): number {
  let written = 0
  for (let from = 0; from < text.length; from += size) {
    written += out.write(text.toString('latin1', from, from + size), written, 'base64')
  }
  return written
}

function whole(): number {
  return Buffer.from(text.toString('latin1'), 'base64').length
}

function medianMs(decode: () => number): number {
  const times = Array.from({ length: ROUNDS }, () => {
    const startMs = performance.now()
    if (decode() !== AUDIO_BYTES) throw new Error('wrong length')
    return performance.now() - startMs
  })
  return times.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)]!
}

const rows = [...SLICES.map((size) => ({ slice: `${size / KIB} KiB`, ms: medianMs(() => inSlices(size)) }))]
rows.push({ slice: 'whole, new memory', ms: medianMs(whole) })
const table = rows.map(({ slice, ms }) => ({
  slice,
  ms: Number(ms.toFixed(2)),
  gb_per_s: Number((text.length / ms / 1e6).toFixed(2)),
}))
console.table(table)
console.log(JSON.stringify({ bench: 'base64', node: process.version, cpu: cpus()[0]?.model, rows: table }))
