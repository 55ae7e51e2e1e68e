import fc from 'fast-check'
import t from 'tap'
import type { LiveEvent } from '../../../src/contracts/live.ts'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'
import { TEXT_MAX } from '../../../src/gateway/providers/live.ts'
import { LiveRig, liveCall, liveTarget } from '../../support/live.ts'
import { FLUX_MESSAGES, LIVE_MESSAGES, LIVE_MODELS, VLLM_MESSAGES } from './live-messages.ts'

/** Every protocol, by whichever model or option of an entry it is spoken. */
const CASES = [...PROVIDERS.values()]
  .filter(({ live }) => live !== undefined)
  .flatMap((provider) => {
    const target = liveTarget(LIVE_MODELS[provider.kind] ?? 'model')
    const plain = { name: provider.kind, provider, target, messages: LIVE_MESSAGES[provider.kind] ?? [] }
    if (provider.kind === 'deepgram') {
      const turns = { name: 'deepgram with turns', target: liveTarget('flux-general-multi') }
      return [plain, { ...plain, ...turns, messages: FLUX_MESSAGES }]
    }
    if (provider.kind !== 'openai-compatible') return [plain]
    const by = (protocol: string, messages: readonly object[]) => ({
      name: `${provider.kind} as ${protocol}`,
      provider,
      target: { ...target, options: { live_protocol: protocol } },
      messages,
    })
    return [plain, by('speaches', plain.messages), by('vllm', VLLM_MESSAGES)]
  })

/** Values that no field is expected to have. */
const hostile = fc.constantFrom<unknown>(
  ...[null, true, '', 'x', '\u0000', 'x'.repeat(300), -1, 0, 1e308, -1e308, 1.5, 4_000_000_000, [], {}, [[]]],
  ...[{ message: {} }, [null, 1, 'a'], '__proto__', { length: 1e9 }, { toString: 0 }, 'NaN'],
)

/** A message of the protocol in which some values are others. */
function mutated(message: unknown): fc.Arbitrary<unknown> {
  const own: fc.Arbitrary<unknown> = Array.isArray(message)
    ? fc.tuple(...message.map(mutated))
    : typeof message === 'object' && message !== null
      ? fc.record(Object.fromEntries(Object.entries(message).map(([key, value]) => [key, mutated(value)])), {
          requiredKeys: Object.keys(message).filter((key) => key === 'type' || key === 'message_type'),
        })
      : typeof message === 'number'
        ? fc.oneof(
            { weight: 6, arbitrary: fc.constant(message) },
            fc.double({ min: 0, max: 60, noNaN: true }),
          )
        : fc.constant(message)
  return fc.oneof({ weight: 12, arbitrary: own }, { weight: 1, arbitrary: hostile })
}

const junk = fc.oneof(
  fc.string(),
  fc.uint8Array({ maxLength: 64 }),
  fc.json(),
  fc.constantFrom(
    '{',
    '[]',
    'null',
    '{"type":',
    '[['.repeat(5000),
    '{"a":'.repeat(5000),
    '{"type":"error","error":1}',
    '',
  ),
)

type Action =
  | { readonly do: 'audio'; readonly tenths: number }
  | { readonly do: 'finalize' | 'keepAlive' | 'end' }
  | { readonly do: 'hear'; readonly frame: string | Uint8Array }
  | { readonly do: 'closed'; readonly code: number; readonly reason: string }

function actions(messages: readonly object[]): fc.Arbitrary<Action[]> {
  const hear = fc
    .oneof(
      ...messages.map((message) => ({
        weight: 4,
        arbitrary: mutated(message).map((value) => JSON.stringify(value) ?? ''),
      })),
      { weight: 2, arbitrary: junk },
    )
    .map((frame): Action => ({ do: 'hear', frame }))
  return fc.array(
    fc.oneof(
      {
        weight: 4,
        arbitrary: fc.integer({ min: 1, max: 80 }).map((tenths): Action => ({ do: 'audio', tenths })),
      },
      { weight: 10, arbitrary: hear },
      {
        weight: 1,
        arbitrary: fc.constantFrom<Action>({ do: 'finalize' }, { do: 'keepAlive' }, { do: 'end' }),
      },
      {
        weight: 1,
        arbitrary: fc.record({ do: fc.constant('closed' as const), code: fc.integer(), reason: fc.string() }),
      },
    ),
    { maxLength: 40 },
  )
}

const CALLS = [
  liveCall(),
  liveCall({}, { commit: 'manual', interim: false }),
  liveCall(
    { diarization: true, multichannel: true },
    { audio: { encoding: 'mulaw', sampleRate: 8000, channels: 2 } },
  ),
]

/** Whether what was heard keeps the rules that a session relies on. */
function faultIn(events: readonly LiveEvent[], sent: number, channels: number): string | null {
  const most = sent + 0.002
  // Each final ends a millisecond behind the one before, without any audio, too.
  const latest = most + 0.001 * events.length
  const ends = Array.from({ length: channels }, () => 0)
  let settled = 0
  for (const event of events) {
    const text = JSON.stringify(event)
    if (
      /null/.test(
        text.replaceAll(
          /"(?:language|languageConfidence|retryAfterMs|providerMessage|status|param)":null/g,
          '',
        ),
      )
    )
      return `a number that is none: ${text.slice(0, 200)}`
    if (event.kind === 'settled') {
      if (event.seconds <= settled || event.seconds > most)
        return `settled at ${event.seconds} after ${settled}`
      settled = event.seconds
    }
    if (!('channel' in event)) continue
    if (!Number.isInteger(event.channel) || event.channel < 0 || event.channel >= channels)
      return `no such channel: ${text}`
    if (event.kind === 'partial' && (event.text.length > TEXT_MAX || event.start > latest))
      return 'a partial is too long'
    if (event.kind !== 'final') continue
    const { start, end, text: said } = event.segment
    if (!(start >= 0 && start <= end && end <= latest && said.length <= TEXT_MAX))
      return `segment: ${text.slice(0, 300)}`
    for (const { start: from, end: to } of event.words) {
      if (from < ends[event.channel]! || to < from || to > latest)
        return `words out of order: ${text.slice(0, 300)}`
      ends[event.channel] = to
    }
  }
  return null
}

for (const { name, provider, target, messages } of CASES) {
  t.test(`${name}: no frame throws, and times go on`, async (t) => {
    t.ok(messages.length > 0, 'its messages are known')
    for (const [index, call] of CALLS.entries()) {
      const channels = provider.live!.handshake(call, target).audio.channels
      fc.assert(
        fc.property(actions(messages), (list) => {
          const rig = new LiveRig(provider, call, target).open()
          let seconds = 0
          let asked = 0
          for (const action of list) {
            if (action.do === 'audio') {
              rig.audio(action.tenths / 10)
              seconds += action.tenths / 10
            } else if (action.do === 'hear') rig.hear(action.frame)
            else if (action.do === 'closed') rig.stepper.closed(action.code, action.reason)
            else if (action.do === 'keepAlive') rig.stepper.keepAlive()
            else rig[action.do]()
            if (action.do === 'finalize') asked += 1
          }
          const answers = rig.events.filter(({ kind }) => kind === 'finalized').length
          if (answers > asked) throw new Error('answered more often than asked')
          if (rig.sent.some((frame) => frame.length === 0)) throw new Error('an empty frame')
          const fault = faultIn(rig.events, seconds, channels)
          if (fault !== null) throw new Error(fault)
        }),
        { numRuns: 300 },
      )
      t.pass(`call ${index}`)
    }
  })

  t.test(`${name}: what a provider goes on saying is not kept`, async (t) => {
    const rig = new LiveRig(provider, liveCall(), target).open().audio(5)
    const before = process.memoryUsage().heapUsed
    for (let turn = 0; turn < 4000; turn += 1) {
      for (const message of messages) {
        const text = JSON.stringify(message)
          .replaceAll('"item_1"', `"item_${turn}"`)
          .replaceAll('"hello"', `"${'hello '.repeat(100)}${turn}"`)
        const { events } = rig.stepper.received(text)
        for (const event of events)
          if (event.kind === 'partial' && event.text.length > TEXT_MAX) t.fail('a partial grows without end')
      }
    }
    // Collected or not: what is kept of 4,000 times 600 characters would be some megabytes by itself.
    t.ok(process.memoryUsage().heapUsed - before < 128 * 1024 * 1024)
  })
}
