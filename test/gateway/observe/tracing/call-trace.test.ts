import { type DiagLogger, diag, SpanKind } from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace'
import { AlwaysOffSampler, AlwaysOnSampler, TracerProvider } from '@opentelemetry/sdk-trace'
import fc from 'fast-check'
import t from 'tap'
import { systemClock } from '../../../../src/contracts/time.ts'
import { CallTrace } from '../../../../src/gateway/observe/tracing/call-trace.ts'
import { readTraceContext } from '../../../../src/gateway/observe/tracing/trace-context.ts'
import { entry } from '../../../support/catalog.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const CALLER = readTraceContext({ traceparent: `00-${TRACE}-00f067aa0ba902b7-01`, tracestate: 'a=1' })
const FAILURE = {
  kind: 'server',
  status: 500,
  reason: 'x',
  retryAfterMs: null,
  providerMessage: null,
} as const
const ANSWER = { usage: { input_tokens: 3, total_tokens: 4, audio_seconds: null }, costUsd: 0.5 }

function traced({ sampled = true } = {}) {
  const ended: ReadableSpan[] = []
  let begun = 0
  const provider = new TracerProvider({
    sampler: sampled ? new AlwaysOnSampler() : new AlwaysOffSampler(),
    spanProcessors: [
      {
        onStart() {
          begun += 1
        },
        onEnd: (span) => void ended.push(span),
        forceFlush: async () => {},
        shutdown: async () => {},
      },
    ],
  })
  const outermost = { name: 'POST /x', kind: SpanKind.SERVER, facts: { known: 1, unknown: undefined } }
  const trace = new CallTrace(provider.getTracer('test'), {
    ...outermost,
    elapsedMs: 100,
    caller: CALLER,
    clock: systemClock,
  })
  return { trace, ended, begun: () => begun }
}

const END = { status: 200, error: undefined, facts: {} }

t.test('a step is over when the next one begins, and an answer when it is metered', async (t) => {
  const { trace, ended } = traced()
  trace.begin('admit')
  trace.begin('body')
  trace.attempt('chat', entry({ model: 'gpt-4o' }))
  trace.attemptEnded(200, null)
  trace.metered(ANSWER)
  trace.settling(null)
  trace.finish({ ...END, facts: { later: 2 } })
  t.same(
    ended.map(({ name }) => name),
    ['admit', 'body', 'chat gpt-4o', 'settle', 'POST /x'],
  )
  const [attempt, root] = [ended[2], ended[4]]
  t.match(attempt?.attributes, {
    'gen_ai.usage.input_tokens': 3,
    'larkway.usage.total_tokens': 4,
    'larkway.cost_usd': 0.5,
  })
  t.notOk('larkway.usage.audio_seconds' in (attempt?.attributes ?? {}), 'what is not known is left out')
  t.same(root?.attributes, { known: 1, later: 2, 'http.response.status_code': 200 })
  t.equal(root?.spanContext().traceId, TRACE)
  t.ok(Number(root?.duration[1]) >= 100e6, 'it began when the head came')
  t.equal(root?.spanContext().traceState, undefined)
})

t.test('what is not sampled has ids all the same', async (t) => {
  const { trace, ended, begun } = traced({ sampled: false })
  trace.begin('admit')
  t.match(trace.traceparent, new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`))
  const ids = [0, 1].map(() => {
    trace.attempt('speech', entry({ model: 'tts-1' }))
    const { traceparent, tracestate } = trace.headers()
    t.match(traceparent, new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`))
    t.equal(tracestate, 'a=1')
    trace.attemptEnded(500, FAILURE)
    return traceparent
  })
  t.equal(new Set([...ids, trace.traceparent, trace.headers().traceparent]).size, 3)
  trace.settling(Promise.resolve())
  trace.finish(END)
  t.same([ended.length, begun()], [0, 0])
})

/** Everything that can be told to a trace. */
const TELLINGS: readonly ((trace: CallTrace) => void)[] = [
  (trace) => trace.begin('admit'),
  (trace) => trace.begin('settle'),
  (trace) => trace.end(),
  (trace) => trace.failed('INTERNAL'),
  (trace) => trace.failed('UNAUTHENTICATED'),
  (trace) => trace.attempt('chat', entry({ model: 'gpt-4o' })),
  (trace) => void trace.headers(),
  (trace) => trace.begun(),
  (trace) => trace.attemptEnded(200, null),
  (trace) => trace.attemptEnded(null, FAILURE),
  (trace) => trace.attemptLeft(),
  (trace) => trace.metered(ANSWER),
  (trace) => trace.settling(null),
  (trace) => trace.settling(Promise.resolve()),
  (trace) => trace.finish(END),
  (trace) => trace.finish({ status: null, error: 'UPSTREAM_ERROR', facts: {} }),
]

t.test('in whatever order it is told, every span ends once', async (t) => {
  const complaints: string[] = []
  const complain = (message: string) => void complaints.push(message)
  const silent = () => {}
  const logger: DiagLogger = { error: complain, warn: complain, info: silent, debug: silent, verbose: silent }
  diag.setLogger(logger)
  t.teardown(() => diag.disable())
  const order = fc.array(fc.nat(TELLINGS.length - 1), { maxLength: 24 })
  await fc.assert(
    fc.asyncProperty(order, async (tellings) => {
      const { trace, ended, begun } = traced()
      for (const telling of tellings) TELLINGS[telling]!(trace)
      trace.attemptLeft()
      trace.finish(END)
      trace.settling(null)
      await Promise.resolve()
      return (
        ended.length === begun() && new Set(ended.map((span) => span.spanContext().spanId)).size === begun()
      )
    }),
    { numRuns: 2_000 },
  )
  t.same(complaints, [])
})
