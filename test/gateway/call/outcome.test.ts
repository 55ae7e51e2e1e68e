import t from 'tap'
import type { ChatResult } from '../../../src/contracts/chat.ts'
import { buildOutcome, meterUnanswered } from '../../../src/gateway/call/attempt/outcome.ts'
import type { Selection } from '../../../src/gateway/call/select/selection.ts'
import { callOf, transcriptionCall } from '../../support/call.ts'
import { entry, route } from '../../support/catalog.ts'
import { chatCall, entryAt, gatewayRig } from '../../support/gateway-rig.ts'

const ANSWER: ChatResult = {
  content: 'hello',
  tool_calls: [],
  finish_reason: 'stop',
  audio: null,
  usage: { input_tokens: 1, output_tokens: 1 },
  warnings: [],
}

function selectionOf(one = entry()) {
  const candidate = { route: route([one]), entry: one, forPurpose: false }
  const purpose = { requested: null, otherwise: 'none', source: null, unavailable: null } as const
  const selection: Selection = {
    candidates: [candidate],
    purpose,
    warnings: ['of selection'],
    considered: [],
    assigned: candidate.route,
  }
  return { candidate, selection }
}

t.test('a seed is honored where it was given, is taken and was not left out', async (t) => {
  const rows = [
    ['openai-compatible', 7, [], true],
    ['openai-compatible', 0, [], true],
    ['openai-compatible', null, [], false],
    ['openai-compatible', 7, ['seed: this model does not take it; it was left out'], false],
    ['anthropic', 7, [], false],
  ] as const
  for (const [kind, seed, warnings, honored] of rows) {
    const { candidate, selection } = selectionOf(entryAt('http://127.0.0.1:1', { kind }))
    const { services, request } = gatewayRig(t, { entries: [candidate.entry] })
    const payload = chatCall({ seed })
    const result = { ...ANSWER, warnings }
    const answer = { result, warnings: [], release: () => {} }
    const active = { services, ...request('chat', payload) }
    const { envelope } = buildOutcome(active, selection, candidate, answer)
    t.equal(envelope.determinism.seed_honored, honored, `${kind}, ${seed}, ${warnings}`)
  }
})

t.test(
  'warnings come in the order in which they arose, and the context knows what the answer says',
  async (t) => {
    const { candidate, selection } = selectionOf()
    const { services, request } = gatewayRig(t, { entries: [candidate.entry] })
    const { payload } = transcriptionCall({ audio: { durationSeconds: null } })
    const call = { ...callOf('transcription', payload), warnings: ['of the request'] }
    const result = {
      text: ' ',
      language: null,
      languageConfidence: null,
      durationSeconds: 10,
      segments: [],
      words: [],
      warnings: ['of the result'],
    }
    const one = { ...request('transcription', payload), call }
    const answer = { result, warnings: ['of the attempt'], release: () => {} }
    const { envelope } = buildOutcome({ services, ...one }, selection, candidate, answer)
    t.match(envelope.warnings, [
      'of the request',
      'of selection',
      'of the attempt',
      /^usage.audio_seconds/,
      'of the result',
      /^empty_transcript/,
    ])
    t.match(one.context.money, { usage: envelope.usage, costUsd: 0.001 })
    t.equal(one.context.routing.policyVersionId, candidate.route.version)
    t.equal(envelope.cost_usd, 0.001)
  },
)

t.test('what is known of a call before its answer is', async (t) => {
  const { candidate } = selectionOf()
  const { services } = gatewayRig(t, { entries: [candidate.entry] })
  const { payload } = transcriptionCall({ audio: { durationSeconds: 10 } })
  const known = meterUnanswered({ services, call: callOf('transcription', payload) }, candidate)
  t.match(known, { usage: { audio_seconds: 10 }, cost_usd: 0.001 })
})
