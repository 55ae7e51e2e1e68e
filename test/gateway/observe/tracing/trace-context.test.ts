import fc from 'fast-check'
import t from 'tap'
import { readTraceContext, traceparentOf } from '../../../../src/gateway/observe/tracing/trace-context.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const SPAN = '00f067aa0ba902b7'
const WHOLE = `00-${TRACE}-${SPAN}-01`

t.test('what a trace context says', async (t) => {
  const context = readTraceContext({ traceparent: WHOLE, tracestate: 'a=1, b=2' })
  t.same(context, {
    span: { traceId: TRACE, spanId: SPAN, traceFlags: 1, isRemote: true },
    tracestate: 'a=1,b=2',
  })
  t.equal(traceparentOf(context!.span), WHOLE)
  const flags = (last: string) =>
    readTraceContext({ traceparent: WHOLE.slice(0, -2) + last })?.span.traceFlags
  t.same(['00', '02', '03', 'ff'].map(flags), [0, 0, 1, 1], 'of the flags only the one is known')
  const later = (tail: string) =>
    readTraceContext({ traceparent: `cc${WHOLE.slice(2)}${tail}` })?.span.traceId
  t.same(
    ['', '-', '-what.comes.later'].map(later),
    [TRACE, TRACE, TRACE],
    'of a later version what is known of it',
  )
  t.equal(later('.what'), undefined)
})

t.test('what is none', async (t) => {
  const broken = [
    '',
    '00',
    WHOLE.toUpperCase(),
    ` ${WHOLE}`,
    `${WHOLE}\n`,
    `${WHOLE}-`,
    `${WHOLE}-00`,
    `ff${WHOLE.slice(2)}`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `${WHOLE}, ${WHOLE}`,
  ]
  for (const traceparent of broken)
    t.equal(readTraceContext({ traceparent, tracestate: 'a=1' }), null, traceparent)
  t.equal(readTraceContext({}), null)
  t.equal(readTraceContext({ tracestate: 'a=1' }), null, 'a state without a trace says nothing')
})

t.test('any text at all', async () => {
  const hostile = fc.oneof(
    fc.string({ maxLength: 200, unit: 'binary' }),
    // Whole ones with one character changed.
    fc
      .tuple(fc.nat(WHOLE.length - 1), fc.string({ minLength: 0, maxLength: 2, unit: 'binary-ascii' }))
      .map(([at, text]) => WHOLE.slice(0, at) + text + WHOLE.slice(at + 1)),
  )
  const state = fc.oneof(hostile, fc.stringMatching(/^[a-z0-9=, _@*/-]{0,600}$/))
  fc.assert(
    fc.property(hostile, state, (traceparent, tracestate) => {
      const context = readTraceContext({ traceparent, tracestate })
      if (context === null) return true
      const { span, tracestate: kept } = context
      const wellFormed = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[01]$/.test(traceparentOf(span))
      return wellFormed && /^[\x20-\x7e]*$/.test(kept) && kept.length <= 512 && kept.split(',').length <= 32
    }),
    { numRuns: 3_000 },
  )
})
