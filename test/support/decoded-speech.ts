import { MPEGDecoder } from 'mpg123-decoder'
import { OggOpusDecoder } from 'ogg-opus-decoder'
import type { LiveEncoding } from '../../src/contracts/calls.ts'
import { converter, samplesOf } from '../../src/gateway/media/pcm.ts'
import { createMediaProbe } from '../../src/gateway/media/probe.ts'
import { speechForm } from '../../src/gateway/media/speech-form.ts'
import { hearTranscript } from '../../src/sandbox/transcript.ts'
import { readWav, writeWav } from '../../src/sandbox/wav.ts'
import { memoryAudio } from './memory-audio.ts'

/** Speech as samples of one channel. */
export interface DecodedSpeech {
  readonly sampleRate: number
  readonly samples: Int16Array
}

/** Decodes speech in one of the formats that the gateway makes, by decoders that are not its own. */
export async function decodeSpeech(bytes: Uint8Array, format: string): Promise<DecodedSpeech> {
  const form = speechForm(format)
  if (form === null) throw new Error(`${format} is no format`)
  switch (form.codec) {
    case 'mp3': {
      const decoder = new MPEGDecoder()
      await decoder.ready
      const decoded = decoder.decode(bytes)
      decoder.free()
      return fromFloats(decoded)
    }
    case 'opus': {
      const decoder = new OggOpusDecoder()
      await decoder.ready
      const decoded = await decoder.decodeFile(bytes)
      decoder.free()
      return fromFloats(decoded)
    }
    case 'wav': {
      const wav = readWav(Buffer.from(bytes))
      if (wav === null) throw new Error('it is no wav file')
      return fromFloats({ channelData: [...wav.channels], sampleRate: wav.sampleRate, errors: [] })
    }
    default: {
      const encodings: Record<string, LiveEncoding> = { ulaw: 'mulaw', alaw: 'alaw' }
      const encoding = encodings[form.codec] ?? 'pcm_s16le'
      const audio = { encoding, sampleRate: form.sampleRate!, channels: 1 }
      const plain = converter(audio, { ...audio, encoding: 'pcm_s16le' })?.(bytes) ?? bytes
      return { sampleRate: form.sampleRate!, samples: samplesOf(plain) }
    }
  }
}

function fromFloats(decoded: {
  readonly channelData: Float32Array[]
  readonly sampleRate: number
  readonly errors: readonly unknown[]
}): DecodedSpeech {
  const [first, second] = decoded.channelData
  if (first === undefined || decoded.errors.length > 0) throw new Error(JSON.stringify(decoded.errors))
  if (second?.some((sample, at) => sample !== first[at])) throw new Error('its channels differ')
  const samples = Int16Array.from(first, (sample) => Math.max(-32_768, Math.min(32_767, sample * 32_768)))
  return { sampleRate: decoded.sampleRate, samples }
}

/** The text that the sandbox hears in it. */
export function heardIn({ samples, sampleRate }: DecodedSpeech): string | undefined {
  return hearTranscript(writeWav(samples, sampleRate))?.text
}

/** What our own readers say of a file. */
export function probed(bytes: Uint8Array) {
  const { audio, reader } = memoryAudio(bytes, 'identity')
  return createMediaProbe({ reader }).probe(audio, new AbortController().signal)
}
