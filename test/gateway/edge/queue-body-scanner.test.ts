import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { MAX_ENVELOPE_BYTES, QueueBodyScanner, type Span } from '../../../src/gateway/edge/queue-body.ts'
import { cutsOf, fragment, slices } from '../../support/bodies.ts'

const LONG = process.env.LARKWAY_TEST_LONG === '1'

function scan(pieces: readonly Buffer[], maxPayloadBytes = 1_000_000): Span | null {
  const scanner = new QueueBodyScanner(maxPayloadBytes)
  for (const piece of pieces) scanner.scan(piece)
  return scanner.finish()
}

function textOf(body: Buffer, span: Span | null): string | null {
  return span === null ? null : body.toString('utf8', span.start, span.end)
}

function refusal(pieces: readonly Buffer[], maxPayloadBytes?: number): GatewayError {
  try {
    scan(pieces, maxPayloadBytes)
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('it is not refused')
}

t.test('finds the payload wherever it stands, however the body is cut', async (t) => {
  const bodies: [string, string][] = [
    ['{"payload":{}}', '{}'],
    ['{"endpoint":"chat","payload":{"a":[1,{"b":"}"}]},"mode":"bulk"}', '{"a":[1,{"b":"}"}]}'],
    ['\t{ "endpoint" : "chat" ,\r\n "payload" :\n { "a" : 1 } \n}\n', '{ "a" : 1 }'],
    ['\u{feff}{"payload":{"a":1}}', '{"a":1}'],
    ['{"p\\u0061yload":{"a":1}}', '{"a":1}'],
    [
      `{"${[...'payload'].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}":{}}`,
      '{}',
    ],
    ['{"a":{"payload":{"no":1}},"payload":{"payload":{"yes":1}}}', '{"payload":{"yes":1}}'],
    ['{"a":["payload",{"payload":1}],"b":"payload","payload":{}}', '{}'],
    ['{"a":"\\"payload\\":{","payload":{"s":"\\\\\\"}{"}}', '{"s":"\\\\\\"}{"}'],
    ['{"payload ":{"no":1},"Payload":{"no":2},"payload":{"ü":"🐦"}}', '{"ü":"🐦"}'],
    [`{"${'k'.repeat(300)}":1,"payload":{}}`, '{}'],
    ['{"\\\\":1,"payload\\\\":{"no":1},"payload":{}}', '{}'],
  ]
  for (const [text, payload] of bodies) {
    const body = Buffer.from(text)
    for (const pieces of cutsOf(body)) t.equal(textOf(body, scan(pieces)), payload, text.slice(0, 60))
    for (let cut = 0; cut <= body.length; cut++)
      assert.equal(textOf(body, scan(fragment(body, [cut]))), payload)
  }
  for (const text of ['{}', '{"a":{"payload":{}}}', '"payload"', '', '{"payload\\u0000":{}}'])
    t.equal(scan([Buffer.from(text)]), null, `none in ${text}`)
})

t.test('refuses what it cannot take, naming the member', async (t) => {
  const cases: [string, string | undefined][] = [
    ['{"payload":[]}', 'payload'],
    ['{"payload":null}', 'payload'],
    ['{"payload":"{}"}', 'payload'],
    ['{"payload": 1}', 'payload'],
    ['{"payload":{},"payload":{}}', 'payload'],
    ['{"payload":{},"p\\u0061yload":1}', 'payload'],
    ['{"endpoint":"chat","payload":{},"endpoint":"image"}', 'endpoint'],
    ['{"mode":null,"mode":null}', 'mode'],
    ['{"idempotency_key":"a","idempotency_ke\\u0079":"b"}', 'idempotency_key'],
    ['{"payload":{"a":', undefined],
    ['{"payload":{"a":"}', undefined],
    ['[{"payload":{}}]', undefined],
    [`{"payload":{"a":${'['.repeat(130)}`, undefined],
  ]
  for (const [text, param] of cases) {
    const body = Buffer.from(text)
    for (const pieces of cutsOf(body)) {
      const { code, extra } = refusal(pieces)
      t.same([code, extra.param], ['INVALID_REQUEST', param], text.slice(0, 60))
    }
  }
})

t.test('limits the bytes of the payload and of what is around it', async (t) => {
  const payload = Buffer.from('{"a":"0123456789"}')
  const around = (before: string, after: string) =>
    Buffer.concat([Buffer.from(`{${before}"payload":  `), payload, Buffer.from(`  ${after}}`)])
  const body = around('"endpoint":"chat",', ',"mode":"bulk"')
  for (const pieces of cutsOf(body)) {
    t.equal(textOf(body, scan(pieces, payload.length)), payload.toString(), 'as long as it may be')
    const { code, extra } = refusal(pieces, payload.length - 1)
    t.match(
      { code, ...extra },
      {
        code: 'REQUEST_TOO_LARGE',
        param: 'payload',
        details: {
          limit: 'queue_max_payload_bytes',
          limit_bytes: payload.length - 1,
          received_bytes: payload.length,
        },
      },
    )
  }
  const endless = refusal(slices(Buffer.from(`{"payload":{"a":"${'x'.repeat(5000)}`), 100), 1000)
  t.match(endless.extra.details, { limit_bytes: 1000, received_bytes: 1089 }, 'it need not end to be refused')

  const room = MAX_ENVELOPE_BYTES - (body.length - payload.length)
  const spaces = (count: number) => around(`"endpoint":"chat",${' '.repeat(count)}`, ',"mode":"bulk"')
  t.ok(scan(slices(spaces(room), 1000)), 'as much as there may be around it')
  for (const more of [
    spaces(room + 1),
    around('"endpoint":"chat",', `,"mode":"bulk"${' '.repeat(room + 1)}`),
  ]) {
    const { code, extra } = refusal(slices(more, 1000))
    t.same([code, extra.param], ['INVALID_REQUEST', undefined])
  }
})

/** JSON with white space wherever it may stand, and keys and strings spelled in one of the ways there are. */
const SPELLED = fc
  .tuple(fc.jsonValue({ maxDepth: 4 }), fc.infiniteStream(fc.nat(9)))
  .map(([value, dice]) => spell(value, () => dice.next().value))

function spell(value: unknown, die: () => number): string {
  const gap = () => ['', '', '', ' ', '\n', '\t ', '\r\n'][die() % 7]
  if (typeof value === 'string') return quote(value, die)
  if (Array.isArray(value))
    return `[${gap()}${value.map((item) => spell(item, die)).join(`${gap()},${gap()}`)}${gap()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).map(([k, v]) => `${quote(k, die)}${gap()}:${gap()}${spell(v, die)}`)
  return `{${gap()}${members.join(`${gap()},${gap()}`)}${gap()}}`
}

function quote(text: string, die: () => number): string {
  if (die() > 2) return JSON.stringify(text)
  const escaped = Array.from({ length: text.length }, (_, at) =>
    text.charCodeAt(at).toString(16).padStart(4, '0'),
  )
  return `"${escaped.map((code) => `\\u${code}`).join('')}"`
}

const MEMBERS = fc.dictionary(
  fc.oneof(
    fc.constantFrom('endpoint', 'mode', 'idempotency_key', 'Payload', '__proto__', '}', '"'),
    fc.string(),
  ),
  SPELLED,
  { maxKeys: 4 },
)
const PAYLOADS = fc
  .tuple(
    fc.dictionary(fc.oneof(fc.constant('payload'), fc.string()), fc.jsonValue({ maxDepth: 3 })),
    fc.infiniteStream(fc.nat(9)),
  )
  .map(([value, dice]) => spell(value, () => dice.next().value))

t.test('agrees with JSON.parse on random bodies, however they are cut', async (t) => {
  const body = fc.record({
    before: MEMBERS,
    after: MEMBERS,
    payload: PAYLOADS,
    cuts: fc.array(fc.nat(2000), { maxLength: 20 }),
  })
  const property = fc.property(body, ({ before, after, payload, cuts }) => {
    const member = ([key, value]: [string, string]) => `${JSON.stringify(key)}:${value}`
    const last = Object.entries(after).filter(([key]) => !Object.hasOwn(before, key) && key !== 'payload')
    const first = Object.entries(before).filter(([key]) => key !== 'payload')
    const text = `{${[...first.map(member), `"payload" : ${payload}`, ...last.map(member)].join(' ,')}}`
    const raw = Buffer.from(text)
    const span = scan(fragment(raw, cuts))
    assert.ok(span !== null)
    const { start, end } = span
    assert.equal(textOf(raw, span), payload)
    const whole = JSON.parse(text)
    assert.deepEqual(JSON.parse(raw.toString('utf8', start, end)), whole.payload)
    const rest = JSON.parse(`${raw.toString('utf8', 0, start)}null${raw.toString('utf8', end)}`)
    assert.deepEqual(rest, { ...whole, payload: null })
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns: LONG ? 3000 : 1000 }))
})

t.test('what it takes of damaged bodies is JSON for the parser, too, and the same', async (t) => {
  const damage = fc.record({
    before: MEMBERS,
    payload: PAYLOADS,
    edits: fc.array(
      fc.tuple(fc.nat(400), fc.nat(3), fc.constantFrom(...'{}[]",:\\ 1', 'payload', '"payload":{', 'null')),
      { minLength: 1, maxLength: 4 },
    ),
  })
  const numRuns = LONG ? 5000 : 1500
  let taken = 0
  let refused = 0
  const property = fc.property(damage, ({ before, payload, edits }) => {
    const members = Object.entries(before).map(([key, value]) => `${JSON.stringify(key)}:${value}`)
    let text = `{${[...members, `"payload":${payload}`].join(',')}}`
    for (const [at, count, put] of edits) {
      const from = at % (text.length + 1)
      text = text.slice(0, from) + put + text.slice(from + count)
    }
    const raw = Buffer.from(text)
    const mine = takenOf(raw)
    const theirs = parsedOf(raw.toString())
    if (mine !== null) {
      taken += 1
      assert.deepEqual(mine, theirs)
    } else {
      refused += 1
      const payload = theirs === null ? undefined : theirs.payload
      const acceptable = typeof payload === 'object' && payload !== null && !Array.isArray(payload)
      assert.ok(!acceptable || hasTwice(raw.toString()), `${text} is refused`)
    }
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns }))
  t.ok(taken > numRuns / 50 && refused > numRuns / 5, `${taken} were taken, ${refused} refused`)
})

/** The parts of a body by the scanner and a parser; null when it is refused. */
function takenOf(raw: Buffer): Record<string, unknown> | null {
  try {
    const span = scan([raw])
    if (span === null) return null
    const rest = parsedOf(`${raw.toString('utf8', 0, span.start)}null${raw.toString('utf8', span.end)}`)
    const payload = parsedOf(raw.toString('utf8', span.start, span.end))
    return rest === null || payload === null ? null : { ...rest, payload }
  } catch (error) {
    if (error instanceof GatewayError) return null
    throw error
  }
}

function parsedOf(text: string): Record<string, unknown> | null {
  try {
    const value = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null
  } catch {
    return null
  }
}

/** One of the scanner's members is there twice, which JSON.parse does not tell. */
function hasTwice(text: string): boolean {
  return ['endpoint', 'payload', 'mode', 'idempotency_key'].some((name) => countTop(text, name) > 1)
}

/** How often a key stands at the top of a body that is JSON. */
function countTop(text: string, name: string): number {
  let depth = 0
  let count = 0
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?|[{}[\]]/gs)) {
    if ('{['.includes(token)) depth += 1
    else if ('}]'.includes(token)) depth -= 1
    else if (depth === 1 && token.endsWith(':') && JSON.parse(token.slice(0, -1).trim()) === name) count += 1
  }
  return count
}
