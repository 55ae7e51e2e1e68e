import t from 'tap'
import type { Provider, Target } from '../../../src/contracts/provider.ts'
import { deepgram } from '../../../src/gateway/providers/deepgram/provider.ts'
import { elevenlabs } from '../../../src/gateway/providers/elevenlabs/provider.ts'
import { audio, options, speechCall } from '../../support/call.ts'
import { requestOf } from '../../support/form-of.ts'
import { liveCall } from '../../support/live.ts'

interface Vendor {
  readonly provider: Provider
  readonly models: { readonly files: string; readonly live: string; readonly speech: string }
  readonly option: readonly [name: string, value: string]
  /** Promises that have to be asked for. */
  readonly asked: readonly NonNullable<Target['promises']>[]
}

const VENDORS: readonly Vendor[] = [
  {
    provider: deepgram,
    models: { files: 'nova-3', live: 'nova-3', speech: 'aura-2' },
    option: ['mip_opt_out', 'true'],
    asked: [{ retention: 'zero' }, { training: 'never' }, { retention: 'zero', training: 'allowed' }],
  },
  {
    provider: elevenlabs,
    models: { files: 'scribe_v2', live: 'scribe_v2_realtime', speech: 'eleven_flash_v2_5' },
    option: ['enable_logging', 'false'],
    asked: [{ retention: 'zero' }, { retention: 'zero', training: 'never' }],
  },
]

/** Addresses of all requests that bring content to a vendor. */
function addressesOf({ provider, models }: Vendor, promises: Target['promises']): string[] {
  const { transcription, live, speech, liveSpeech, baseUrl } = provider
  const target = (model: string): Target => ({
    ...{ model, baseUrl: baseUrl ?? '', credential: 'key', options: {} },
    ...(promises === undefined ? {} : { promises }),
  })
  const file = { audio: audio(), options: options() }
  const { payload: said } = speechCall()
  const steps = [
    transcription?.start(file, target(models.files)),
    transcription?.start(file, { ...target(models.files), audioUrl: 'https://files.example/a.wav' }),
    speech?.start(said, target(models.speech)),
    speech?.streamed?.start(said, target(models.speech)),
    provider === elevenlabs ? speech?.start({ ...said, times: true }, target(models.speech)) : undefined,
  ]
  const sockets = [
    live?.handshake(liveCall(), target(models.live)),
    liveSpeech?.handshake(said, target(models.speech)),
  ]
  return [
    ...steps.flatMap((step) => (step === undefined ? [] : [requestOf(step).url])),
    ...sockets.flatMap((one) => (one === undefined ? [] : [one.url])),
  ]
}

t.test('what an entry promises, its provider is asked for with every request', async (t) => {
  for (const vendor of VENDORS) {
    const { provider, asked } = vendor
    const [name, value] = vendor.option
    const plain = addressesOf(vendor, undefined)
    t.ok(plain.length >= 5, provider.kind)
    for (const promises of asked) {
      for (const url of addressesOf(vendor, promises))
        t.same(new URL(url).searchParams.getAll(name), [value], `${url} of ${JSON.stringify(promises)}`)
    }
    const others = [undefined, {}, { retention: { days: 30 } }, { training: 'allowed' }] as const
    for (const promises of others) t.same(addressesOf(vendor, promises), plain, JSON.stringify(promises))
    for (const url of plain) t.notOk(new URL(url).searchParams.has(name), url)
  }
})
