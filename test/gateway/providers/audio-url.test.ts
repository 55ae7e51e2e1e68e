import t from 'tap'
import { transcription as assemblyai } from '../../../src/gateway/providers/assemblyai/transcription.ts'
import { transcription as deepgram } from '../../../src/gateway/providers/deepgram/transcription.ts'
import { transcription as elevenlabs } from '../../../src/gateway/providers/elevenlabs/transcription.ts'
import { groq } from '../../../src/gateway/providers/groq.ts'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'
import { audio, options } from '../../support/call.ts'
import { memoryAudio } from '../../support/memory-audio.ts'

const AUDIO_URL = 'https://store.example/b/job/acme/1?X-Amz-Signature=0a&X-Amz-Date=1'
const call = { audio: audio(memoryAudio(Buffer.from('RIFF'), 'identity').audio), options: options({}) }

t.test('a URL goes in the place of the audio', async (t) => {
  const rows = [
    ['deepgram', deepgram, 'nova-3', '/v1/listen', JSON.stringify({ url: AUDIO_URL })],
    ['assemblyai', assemblyai, 'universal-2', '/v2/transcript', `"audio_url":${JSON.stringify(AUDIO_URL)}`],
    [
      'elevenlabs',
      elevenlabs,
      'scribe_v2',
      '/v1/speech-to-text',
      `name="source_url"\r\n\r\n${AUDIO_URL}\r\n`,
    ],
    [
      'groq',
      groq.transcription!,
      'whisper-large-v3',
      '/audio/transcriptions',
      `name="url"\r\n\r\n${AUDIO_URL}\r\n`,
    ],
  ] as const
  for (const [kind, operation, model, path, text] of rows) {
    const target = {
      model,
      baseUrl: 'https://api.example',
      credential: 'k',
      options: {},
      audioUrl: AUDIO_URL,
    }
    const step = operation.start(call, target)
    if (step.kind !== 'send') throw new Error(`${kind}: ${step.kind}`)
    t.equal(new URL(step.request.url).pathname, path, kind)
    t.ok(
      step.request.body.every((piece) => piece instanceof Uint8Array),
      `${kind}: without the audio`,
    )
    const body = Buffer.concat(step.request.body as Uint8Array[]).toString()
    t.ok(body.includes(text), `${kind}: ${body}`)
    t.notMatch(body, /name="file"/, kind)
    t.notMatch(step.request.url, /X-Amz/, `${kind}: not in what is logged of a request`)
  }
  const takers = [...PROVIDERS.values()].filter(({ transcription }) => transcription?.takesAudioUrl === true)
  t.same(takers.map(({ kind }) => kind).sort(), rows.map(([kind]) => kind).sort(), 'and nowhere else')
})
