// Cost of making speech in another format. Encodes a minute of 24 kHz speech-like sound, in the pieces that
// a provider sends, and measures the CPU of each format for a second of sound; then what the encoders take of memory.
// Run: node bench/micro/encode.ts

import { cpus } from 'node:os'
import { speechForm } from '../../src/gateway/media/speech-form.ts'
import { SpeechTranscoder } from '../../src/gateway/media/speech-transcoder.ts'

const SECONDS = 60
const RATE = 24_000
const PIECE_BYTES = 16 * 1024
const ROUNDS = 5
const FORMATS = [
  ...['pcm_24000', 'pcm_16000', 'pcm_22050', 'pcm_44100', 'ulaw_8000', 'wav_48000'],
  ...['mp3', 'mp3_22050_32', 'mp3_44100_128', 'opus', 'opus_48000_96'],
]

/** Harmonics that come and go, with noise between them, as speech has. */
const samples = Int16Array.from({ length: SECONDS * RATE }, (_, at) => {
  const time = at / RATE
  const envelope = 0.5 + 0.5 * Math.sin(2 * Math.PI * 3 * time)
  let sum = 0.1 * (Math.random() - 0.5)
  for (let harmonic = 1; harmonic <= 12; harmonic += 1)
    sum += (envelope * 0.3 * Math.sin(2 * Math.PI * 140 * harmonic * time)) / harmonic
  return Math.round(20_000 * sum)
})
const speech = new Uint8Array(samples.buffer)
const source = { encoding: 'pcm_s16le', sampleRate: RATE, channels: 1 } as const

async function encode(format: string): Promise<number> {
  const transcoder = new SpeechTranscoder(source, speechForm(format)!)
  let bytes = 0
  for (let at = 0; at < speech.length; at += PIECE_BYTES)
    bytes += (await transcoder.push(speech.subarray(at, at + PIECE_BYTES))).length
  bytes += (await transcoder.end()).length
  transcoder.free()
  return bytes
}

const rows: object[] = []
for (const format of FORMATS) {
  const bytes = await encode(format)
  const costs: number[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = process.cpuUsage()
    await encode(format)
    const { user, system } = process.cpuUsage(before)
    costs.push((user + system) / 1000 / SECONDS)
  }
  const cpu_ms_per_second = Number(costs.sort((a, b) => a - b)[ROUNDS >> 1]!.toFixed(2))
  rows.push({ format, cpu_ms_per_second, kilobits_per_second: Math.round((bytes * 8) / SECONDS / 1000) })
}
console.table(rows)

/** Memory of encoders that have begun, as `ENCODER_BYTES` supposes. */
const MANY = 64
for (const format of ['mp3', 'opus']) {
  const before = process.memoryUsage.rss()
  const open = Array.from({ length: MANY }, () => new SpeechTranscoder(source, speechForm(format)!))
  for (const one of open) await one.push(speech.subarray(0, PIECE_BYTES))
  const kib = Math.round((process.memoryUsage.rss() - before) / MANY / 1024)
  console.log(`${format}: ${kib} KiB an encoder`)
  for (const one of open) one.free()
}
console.log(JSON.stringify({ bench: 'encode', node: process.version, cpu: cpus()[0]?.model, rows }))
