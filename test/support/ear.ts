import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { MPEGDecoder } from 'mpg123-decoder'
import { OggOpusDecoder } from 'ogg-opus-decoder'
import type { Test } from 'tap'
import { hearTranscript } from '../../src/sandbox/transcript.ts'
import { readWav, writeWav } from '../../src/sandbox/wav.ts'
import { serveHttp } from './http-server.ts'

/** What the ear was sent in one request. */
export interface EarCall {
  readonly bytes: number
  readonly seconds: number
  readonly words: readonly string[]
}

export interface EarOptions {
  /** Limits of the vendor: what is over them is refused, as OpenAI does. */
  readonly maxBytes?: number
  readonly maxSeconds?: number
  /**
   * Asked before each answer; a status: it fails so, and 429 with `retry-after-ms`, as OpenAI sends it.
   *
   * @param index of the request, from 0
   */
  readonly fault?: (index: number, call: EarCall) => number | null | Promise<number | null>
  /** Leaves out words and segments, as models without times do. */
  readonly isPlain?: boolean
}

export interface Ear {
  readonly url: string
  /** Requests that were answered. */
  readonly heard: readonly EarCall[]
}

/**
 * A provider in OpenAI's format that hears Morse code in whatever container: it decodes by decoders that are not the
 * gateway's own, so that a file which is cut wrongly is heard wrongly.
 */
export async function startEar(t: Pick<Test, 'teardown'>, options: EarOptions = {}): Promise<Ear> {
  const { maxBytes = 26_214_400, maxSeconds = Number.POSITIVE_INFINITY, fault, isPlain = false } = options
  const heard: EarCall[] = []
  let requests = 0
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const index = requests
    requests += 1
    const form = await new Response(new Uint8Array(await buffer(request)), {
      headers: { 'content-type': request.headers['content-type'] ?? '' },
    }).formData()
    const file = form.get('file') as unknown as File
    const bytes = new Uint8Array(await file.arrayBuffer())
    const refuse = (status: number, message: string) => {
      response.writeHead(status, {
        'content-type': 'application/json',
        ...(status === 429 ? { 'retry-after-ms': '50' } : {}),
      })
      response.end(
        JSON.stringify({ error: { message, type: 'invalid_request_error', param: 'file', code: null } }),
      )
    }
    if (bytes.length > maxBytes) return refuse(413, `Maximum content size limit (${maxBytes}) exceeded`)
    const { samples, sampleRate } = await decoded(bytes)
    const seconds = samples.length / sampleRate
    if (seconds > maxSeconds)
      return refuse(400, `audio duration ${seconds} seconds is longer than ${maxSeconds}`)
    const transcript = hearTranscript(writeWav(samples, sampleRate))!
    const words = transcript.words.map(({ word }) => word)
    const status = (await fault?.(index, { bytes: bytes.length, seconds, words })) ?? null
    if (status !== null) return refuse(status, 'ordered')
    heard.push({ bytes: bytes.length, seconds, words })
    const { text, segments } = transcript
    const timed = isPlain
      ? {}
      : { language: 'english', duration: seconds, segments: segments.map(numbered), words: transcript.words }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ text, ...timed }))
  }
  const url = await serveHttp(t, (request, response) => {
    answer(request, response).catch((error: unknown) => {
      response.writeHead(500)
      response.end(String(error))
    })
  })
  return { url: `${url}/v1`, heard }
}

function numbered(segment: object, id: number) {
  return {
    id,
    seek: 0,
    tokens: [],
    temperature: 0,
    avg_logprob: -0.1,
    compression_ratio: 1,
    no_speech_prob: 0,
    ...segment,
  }
}

async function decoded(bytes: Uint8Array): Promise<{ samples: Int16Array; sampleRate: number }> {
  const magic = Buffer.from(bytes.subarray(0, 48)).toString('latin1')
  if (process.env.LARKWAY_TEST_FFMPEG !== 'true' && magic.startsWith('OggS') && magic.includes('OpusHead')) {
    const decoder = new OggOpusDecoder()
    await decoder.ready
    const { channelData, sampleRate } = await decoder.decodeFile(bytes)
    decoder.free()
    return { samples: toIntegers(channelData[0]!), sampleRate }
  }
  if (bytes[0] === 0xff && (bytes[1]! & 0xe0) === 0xe0) {
    const decoder = new MPEGDecoder()
    await decoder.ready
    const { channelData, sampleRate } = decoder.decode(bytes)
    decoder.free()
    return { samples: toIntegers(channelData[0]!), sampleRate }
  }
  const wav = readWav(Buffer.from(bytes))
  if (wav !== null) return { samples: toIntegers(wav.channels[0]!), sampleRate: wav.sampleRate }
  return { samples: await byFfmpeg(bytes), sampleRate: 8000 }
}

function toIntegers(floats: Float32Array): Int16Array {
  const integers = new Int16Array(floats.length) // `Int16Array.from` takes 30 times as long
  for (let at = 0; at < floats.length; at++)
    integers[at] = Math.max(-32_768, Math.min(32_767, floats[at]! * 32_768))
  return integers
}

/** Debian's `ffmpeg`, which gets a file: not all that it reads can be read from a pipe. */
async function byFfmpeg(bytes: Uint8Array): Promise<Int16Array> {
  const folder = await mkdtemp(join(tmpdir(), 'larkway-ear-'))
  try {
    const path = join(folder, 'sound')
    await writeFile(path, bytes)
    const flags = ['-v', 'error', '-xerror', '-i', path, '-f', 's16le', '-ar', '8000', '-ac', '1', 'pipe:1']
    const { stdout } = await run('ffmpeg', flags, { encoding: 'buffer', maxBuffer: 2 ** 30 })
    return new Int16Array(stdout.buffer.slice(stdout.byteOffset, stdout.byteOffset + stdout.length))
  } finally {
    await rm(folder, { recursive: true })
  }
}

const run = promisify(execFile)
