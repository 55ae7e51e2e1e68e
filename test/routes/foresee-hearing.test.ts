import t from 'tap'
import { newTrail } from '../../src/gateway/gateway.ts'
import { foreseeHearing } from '../../src/routes/foresee-hearing.ts'
import type { TranscriptionRequest } from '../../src/routes/transcription-request.ts'
import type { TranscriptionOptions } from '../../src/schema/calls.ts'
import type { Entry } from '../../src/schema/catalog.ts'
import type { ModelFacts } from '../../src/schema/provider.ts'
import { audio, options } from '../support/call.ts'
import { configuredProvider, entry, facts, principal, route } from '../support/catalog.ts'
import { gatewayRig } from '../support/gateway-rig.ts'
import { refusalOf } from '../support/refusal.ts'

type ModelLimits = ModelFacts['limits']

const { services } = gatewayRig(t, { entries: [] })

function limited(limits: ModelLimits, more: Partial<ModelFacts> = {}): Entry {
  const provider = configuredProvider({ kind: 'openai-compatible' })
  return entry({ provider, facts: facts({ limits, ...more }) })
}

function foresee(
  entries: readonly Entry[],
  asked: Partial<TranscriptionOptions> = {},
  heard: ReturnType<typeof audio> | null = null,
) {
  const trail = newTrail()
  const request: TranscriptionRequest = {
    options: options(asked),
    stream: false,
    selectors: { purpose: null, responseProfile: null },
    warnings: [],
  }
  trail.principal = principal({
    capabilityRoutes: new Map([['audio_input', route(entries, { version: 'pv_for_audio' })]]),
  })
  try {
    foreseeHearing(services, 'transcription', request, heard, trail)
  } finally {
    t.equal(trail.headers['x-lk-policy-version-id'], 'pv_for_audio', 'whatever comes of it')
  }
}

t.test('what is not known of audio by URL refuses nothing', async (t) => {
  const tight = { max_audio_bytes: 1, max_audio_seconds: 1, max_channels: 1 }
  t.doesNotThrow(() => foresee([limited(tight)], { timestamps: 'word' }))
  for (const format of ['mp3', 'mp4', 'wav', 'webm', 'ogg', 'flac'] as const) {
    t.doesNotThrow(() => foresee([limited({ ...tight, audio_formats: [format] })]), format)
    const known = audio({ format: format === 'wav' ? 'mp3' : 'wav', decodedBytes: 0, durationSeconds: null })
    t.match(
      refusalOf(() => foresee([limited({ audio_formats: [format] })], {}, known)),
      { code: 'INVALID_REQUEST', extra: { param: 'audio' } },
    )
  }
})

t.test('what is known does, and names itself rather than a format', async (t) => {
  const onlyOneTerm = { keyterms: { max_items: 1 } }
  const entries = [
    limited({ ...onlyOneTerm, audio_formats: ['flac'] }),
    limited({ ...onlyOneTerm, audio_formats: ['webm'] }),
  ]
  const twice = { keyterms: ['one', 'two'] }
  t.match(
    refusalOf(() => foresee(entries, twice)),
    { code: 'INVALID_REQUEST', extra: { param: 'keyterms' } },
  )
  t.doesNotThrow(() => foresee([...entries, limited({ audio_formats: ['ogg'] })], twice))
  t.match(
    refusalOf(() => foresee([limited({}, { features: [] })], { diarization: true })),
    { code: 'REQUIRED_FEATURE_UNAVAILABLE' },
  )
  t.match(
    refusalOf(() => foresee([limited({}, { capabilities: ['text'] })])),
    { code: 'NO_HEALTHY_PROVIDER' },
  )
  t.match(
    refusalOf(() => foresee([limited({ audio_formats: [] })])),
    { code: 'INVALID_REQUEST', extra: { param: 'audio' } },
    'a model that takes none at all',
  )
})
