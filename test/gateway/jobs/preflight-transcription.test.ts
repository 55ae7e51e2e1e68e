import t from 'tap'
import type { TranscriptionOptions } from '../../../src/contracts/calls.ts'
import type { Entry } from '../../../src/contracts/catalog.ts'
import type { ModelFacts } from '../../../src/contracts/provider.ts'
import type { TranscriptionRequest } from '../../../src/gateway/api/native/transcription-request.ts'
import { CallContext } from '../../../src/gateway/call/context/call-context.ts'
import { preflightTranscription } from '../../../src/gateway/jobs/preflight-transcription.ts'
import { audio, options } from '../../support/call.ts'
import { configuredProvider, entry, facts, principal, route } from '../../support/catalog.ts'
import { gatewayRig, refusalOf } from '../../support/gateway-rig.ts'

type ModelLimits = ModelFacts['limits']

const { services } = gatewayRig(t, { entries: [] })

function limited(limits: ModelLimits, more: Partial<ModelFacts> = {}): Entry {
  const provider = configuredProvider({ kind: 'openai-compatible' })
  return entry({ provider, facts: facts({ limits, ...more }) })
}

async function preflight(
  entries: readonly Entry[],
  asked: Partial<TranscriptionOptions> = {},
  heard: ReturnType<typeof audio> | null = null,
) {
  const caller = principal({
    capabilityRoutes: new Map([['audio_input', route(entries, { version: 'pv_for_audio' })]]),
  })
  const origin = { requestId: 'req_1', signal: new AbortController().signal }
  const context = new CallContext(origin).identify(caller)
  const request: TranscriptionRequest = {
    options: options(asked),
    stream: false,
    selectors: { purpose: null, responseProfile: null },
    warnings: [],
  }
  try {
    await preflightTranscription(services, context, 'transcription', { ...request, audio: heard })
  } finally {
    t.equal(context.routing.policyVersionId, 'pv_for_audio', 'whatever comes of it')
  }
}

t.test('what is not known of audio by URL refuses nothing', async (t) => {
  const tight = { max_audio_bytes: 1, max_audio_seconds: 1, max_channels: 1 }
  await t.resolves(preflight([limited(tight)], { timestamps: 'word' }))
  for (const format of ['mp3', 'mp4', 'mpeg', 'wav', 'webm', 'ogg', 'flac'] as const) {
    await t.resolves(preflight([limited({ ...tight, audio_formats: [format] })]), format)
    const known = audio({ format: format === 'wav' ? 'mp3' : 'wav', decodedBytes: 0, durationSeconds: null })
    t.match(await refusalOf(preflight([limited({ audio_formats: [format] })], {}, known)), {
      code: 'INVALID_REQUEST',
      extra: { param: 'audio' },
    })
  }
})

t.test('what is known does, and names itself rather than a format', async (t) => {
  const onlyOneTerm = { keyterms: { max_items: 1 } }
  const entries = [
    limited({ ...onlyOneTerm, audio_formats: ['flac'] }),
    limited({ ...onlyOneTerm, audio_formats: ['webm'] }),
  ]
  const twice = { keyterms: ['one', 'two'] }
  t.match(await refusalOf(preflight(entries, twice)), {
    code: 'INVALID_REQUEST',
    extra: { param: 'keyterms' },
  })
  await t.resolves(preflight([...entries, limited({ audio_formats: ['ogg'] })], twice))
  t.match(await refusalOf(preflight([limited({}, { features: [] })], { diarization: true })), {
    code: 'REQUIRED_FEATURE_UNAVAILABLE',
  })
  t.match(await refusalOf(preflight([limited({}, { capabilities: ['text'] })])), {
    code: 'NO_HEALTHY_PROVIDER',
  })
  t.match(
    await refusalOf(preflight([limited({ audio_formats: [] })])),
    { code: 'INVALID_REQUEST', extra: { param: 'audio' } },
    'a model that takes none at all',
  )
})
