import t from 'tap'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'
import { audio, options } from '../../support/call.ts'
import { memoryAudio } from '../../support/memory-audio.ts'

const call = { audio: audio(memoryAudio(Buffer.from('RIFF'), 'identity').audio), options: options({}) }

/** Those whose documentation has it that a request is executed, and billed by what it transcribed, when it is whole. */
const KINDS = ['deepgram', 'elevenlabs', 'groq', 'mistral', 'openai', 'sandbox']

t.test(
  'providers that bill whole bodies take the audio as it is in the one request that they are sent',
  async (t) => {
    const kinds: string[] = []
    for (const { kind, transcription, translation } of PROVIDERS.values()) {
      for (const operation of [transcription, translation]) {
        if (operation?.billsWholeBody === undefined) continue
        const { asOf, source } = operation.billsWholeBody
        t.match(asOf, /^20\d\d-\d\d-\d\d$/, `${kind}: when it was looked up`)
        t.match(source, /^(?:https:\/\/\S+(?:; )?)+$|^src\//, `${kind}: where`)
        t.equal(operation.createsOnce, undefined, `${kind}: nothing is ordered`)
        const model = kind === 'elevenlabs' ? 'scribe_v2' : 'whisper-large-v3'
        const step = operation.start(call, {
          model,
          baseUrl: 'https://a.example',
          credential: 'k',
          options: {},
        })
        t.match(step, { kind: 'send', state: null, request: { method: 'POST' } }, kind)
        const pieces =
          step.kind === 'send' ? step.request.body.filter((one) => !(one instanceof Uint8Array)) : []
        t.match(
          pieces,
          [{ as: 'bytes' }],
          `${kind}: not in another encoding, which would come in larger pieces`,
        )
        const refused = { status: 400, headers: {}, body: [Buffer.from('{}')] }
        t.equal(
          operation.next(null, refused, call, { model, baseUrl: '', credential: 'k', options: {} }).kind,
          'failed',
        )
      }
      if (transcription?.billsWholeBody !== undefined) kinds.push(kind)
    }
    t.same(kinds.sort(), KINDS)
  },
)
