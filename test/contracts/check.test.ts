import t from 'tap'
import type { Segment, TranscriptionCall, TranscriptionResult, Word } from '../../src/contracts/calls.ts'
import { GatewayError } from '../../src/contracts/errors.ts'
import type { Operation, Provider, Target } from '../../src/contracts/provider.ts'
import type { UpstreamReply, UpstreamRequest } from '../../src/contracts/upstream.ts'
import { invalidField } from '../../src/gateway/edge/refusals.ts'
import { encodeForm } from '../../src/gateway/providers/form.ts'
import { facts } from '../support/catalog.ts'
import { checkContract, type Report } from './check.ts'
import { Contract } from './contract.ts'
import { type DoorCase, type DoorEndpoint, doorCases, requestTo } from './doors.ts'
import { main } from './main.ts'
import type { Vendor } from './vendors.ts'

// A contract of no vendor, in the words of OpenAPI 3.0, and adapters that keep it or break it in one way each.

const string = { type: 'string' }
const CONTRACT = {
  openapi: '3.0.3',
  components: {
    securitySchemes: { Key: { type: 'apiKey', in: 'header', name: 'X-Key' } },
    schemas: {
      Hearing: {
        type: 'object',
        required: ['model', 'sound'],
        properties: {
          model: { oneOf: [{ type: 'string', enum: ['ear-1'] }, string] },
          sound: { type: 'string', format: 'binary' },
          language: { type: 'string', pattern: '^[a-z]{2}$', nullable: true },
          speakers: { type: 'boolean' },
          terms: { type: 'array', items: string, maxItems: 2 },
          detail: { type: 'integer', minimum: 0, exclusiveMinimum: true },
        },
      },
      Transcript: {
        allOf: [
          { type: 'object', required: ['text'], properties: { text: string } },
          {
            type: 'object',
            properties: { words: { type: 'array', items: { $ref: '#/components/schemas/Word' } } },
          },
        ],
      },
      Word: {
        type: 'object',
        required: ['word', 'end'],
        properties: {
          word: string,
          start: { type: 'number' },
          end: { type: 'number', nullable: true },
          speaker: string,
        },
      },
    },
  },
  paths: {
    '/hear/{mode}': {
      post: {
        security: [{ Key: [] }],
        parameters: [
          { name: 'mode', in: 'path', required: true, schema: string },
          { name: 'punctuate', in: 'query', required: true, schema: { type: 'boolean' } },
        ],
        requestBody: {
          content: { 'multipart/form-data': { schema: { $ref: '#/components/schemas/Hearing' } } },
        },
        responses: {
          '200': { content: { 'application/json': { schema: { $ref: '#/components/schemas/Transcript' } } } },
        },
      },
    },
  },
}

const VENDOR: Vendor = {
  name: 'Nobody',
  files: [],
  kinds: [],
  root: 'https://nobody.example/v1',
  heard: ({ text, words = [] }) => ({
    texts: [`${text}`],
    words: words as Record<string, unknown>[],
    isWhole: (words as unknown[]).length > 0,
  }),
}

/** How an adapter differs from the good one. */
interface Twist {
  request?(request: UpstreamRequest): Partial<UpstreamRequest>
  fields?(call: TranscriptionCall): [string, string][]
  read?(given: Record<string, unknown>, result: TranscriptionResult): TranscriptionResult | null
}

interface GivenWord {
  readonly word: string
  readonly start?: number
  readonly end: number | null
  readonly speaker?: string
}

function adapter({ request: twisted, fields: more, read }: Twist): Provider {
  const transcription: Operation<TranscriptionCall, TranscriptionResult> = {
    start(call, target: Target) {
      const { options, audio } = call
      const { contentType, body } = encodeForm(
        target.baseUrl,
        [
          ['model', target.model],
          ...(options.language === null ? [] : ([['language', options.language]] as const)),
          ...(options.diarization ? ([['speakers', 'true']] as const) : []),
          ['detail', '2'],
          ...(more?.(call) ?? []),
        ],
        { name: 'sound', audio: { ...audio, format: 'wav' } },
      )
      const request: UpstreamRequest = {
        method: 'POST',
        url: `${target.baseUrl}/hear/batch?punctuate=true`,
        headers: { 'content-type': contentType, 'x-key': `${target.credential}` },
        body,
      }
      return { kind: 'send', request: { ...request, ...twisted?.(request) }, state: null }
    },
    next(_state, reply) {
      const given = JSON.parse(Buffer.concat(reply.body).toString()) as Record<string, unknown>
      const result = read === undefined ? goodReading(given) : read(given, goodReading(given))
      return result === null ? refusal(reply) : { kind: 'done', result }
    },
  }
  return { kind: 'nobody', baseUrl: VENDOR.root, needsCredential: true, transcription }
}

function refusal({ status }: UpstreamReply) {
  const failure = {
    kind: 'server',
    status,
    reason: 'no transcript',
    retryAfterMs: null,
    providerMessage: null,
  } as const
  return { kind: 'failed', failure } as const
}

function goodReading({ text, words = [] }: Record<string, unknown>): TranscriptionResult {
  const given = words as GivenWord[]
  const spans = given.map(({ word, start = 0, end, speaker }): Word => {
    return { word, start, end: end ?? start, ...(speaker === undefined ? {} : { speaker }) }
  })
  const segments = spans.map(({ word, ...rest }, id): Segment => ({ id, text: word, ...rest }))
  return {
    text: `${text}`,
    language: null,
    languageConfidence: null,
    durationSeconds: null,
    segments,
    words: spans,
    warnings: given.length === 0 ? ['timestamps: the provider gave none'] : [],
  }
}

async function check(twist: Twist, vendor: Partial<Vendor> = {}): Promise<Report> {
  const subject = {
    kind: 'nobody',
    model: 'ear-1',
    provider: adapter(twist),
    facts: facts({ translates: false }),
  }
  const document = structuredClone(CONTRACT) as unknown as Record<string, unknown>
  return checkContract(new Contract(document), { ...VENDOR, ...vendor }, [subject])
}

t.test('an adapter that keeps the contract', async (t) => {
  const { requests, answers, faults, passedOn } = await check({})
  t.same(faults, [])
  t.ok(requests.tried > 200, `${requests.tried} pairs of options`)
  t.ok(requests.byCaller > 0, 'languages that do not fit are the caller’s own')
  t.equal(requests.tried, requests.valid + requests.byCaller)
  t.ok(answers.tried > 500, `${answers.tried} answers`)
  t.equal(answers.right, answers.tried)
  t.equal(passedOn, 0)
})

t.test('each way of breaking it in a request is found', async (t) => {
  const rows: [name: string, twist: Twist, fault: RegExp][] = [
    ['an unknown field', { fields: () => [['colour', 'red']] }, /body must NOT have .* \(colour\)/],
    ['a wrong type', { fields: () => [['speakers', 'yes']] }, /body\/speakers must be boolean/],
    [
      'a bound of version 3.0',
      { fields: () => [['detail', '0']], request: firstDetail },
      /body\/detail must be > 0/,
    ],
    [
      'a list that is too long',
      { fields: () => ['a', 'b', 'c'].map((term) => ['terms', term]) },
      /body\/terms/,
    ],
    [
      'no credential',
      { request: ({ headers }) => ({ headers: without(headers, 'x-key') }) },
      /no credential in x-key/,
    ],
    ['another method', { request: () => ({ method: 'PUT' }) }, /PUT \/hear\/batch is no operation/],
    ['another path', { request: ({ url }) => ({ url: url.replace('/hear', '/listen') }) }, /is no operation/],
    ['another host', { request: ({ url }) => ({ url: url.replace('nobody', 'else') }) }, /is no operation/],
    [
      'an unknown parameter',
      { request: ({ url }) => ({ url: `${url}&shout=1` }) },
      /query: shout is unknown/,
    ],
    [
      'a parameter that is missing',
      { request: ({ url }) => ({ url: url.split('?')[0]! }) },
      /punctuate is missing/,
    ],
    [
      'a parameter of another type',
      { request: ({ url }) => ({ url: url.replace('true', 'loud') }) },
      /query\/punctuate/,
    ],
    [
      'JSON in place of the form',
      {
        request: () => ({
          headers: { 'x-key': 'k', 'content-type': 'application/json' },
          body: [Buffer.from('{}')],
        }),
      },
      /application\/json is not taken/,
    ],
    ['no body', { request: () => ({ body: [] }) }, /body: is missing/],
  ]
  for (const [name, twist, fault] of rows) {
    const { faults, requests } = await check(twist)
    t.ok(
      faults.some(({ what }) => fault.test(what)),
      `${name}: ${faults.map(({ what }) => what).join('; ')}`,
    )
    t.ok(requests.valid < requests.tried, name)
  }
})

/** Takes the field away that the good adapter sends, so that the other one of its name is read. */
function firstDetail({ body }: UpstreamRequest): Partial<UpstreamRequest> {
  const [head, ...rest] = body
  const text = Buffer.from(head as Uint8Array).toString('latin1')
  return {
    body: [Buffer.from(text.replace('name="detail"\r\n\r\n2', 'name="detail"\r\n\r\n0'), 'latin1'), ...rest],
  }
}

function without(headers: Readonly<Record<string, string>>, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([key]) => key !== name))
}

t.test('each way of misreading an answer is found', async (t) => {
  const rows: [name: string, twist: Twist, fault: RegExp][] = [
    [
      'a word without a beginning is dropped',
      {
        read: ({ words = [] }, result) => ({
          ...result,
          words: result.words.filter((_, index) => (words as GivenWord[])[index]?.start !== undefined),
        }),
      },
      /words with times are lost without a warning/,
    ],
    [
      'its segment is',
      {
        read: ({ words = [] }, result) => ({
          ...result,
          segments: result.segments.filter((_, index) => (words as GivenWord[])[index]?.start !== undefined),
        }),
      },
      /words of segments are lost without a warning/,
    ],
    [
      'the text is made of the words',
      {
        read: (_given, result) => ({
          ...result,
          text: result.words
            .map(({ word }) => word)
            .slice(1)
            .join(' '),
        }),
      },
      /words of the transcript are lost/,
    ],
    [
      'an answer without what may be left out is refused',
      { read: ({ words }, result) => (words === undefined ? null : result) },
      /fails: no transcript/,
    ],
    [
      'a null is not expected',
      {
        read: ({ words = [] }, result) => {
          for (const { end } of words as GivenWord[]) (end as number).toFixed()
          return result
        },
      },
      /throws TypeError/,
    ],
  ]
  for (const [name, twist, fault] of rows) {
    const whole = name.includes('refused') ? { heard: heardAnyway } : {}
    const { faults, answers } = await check(twist, whole)
    t.ok(
      faults.some(({ what }) => fault.test(what)),
      `${name}: ${faults.map(({ what }) => what).join('; ')}`,
    )
    t.ok(answers.right < answers.tried, name)
  }
  const warned = await check({
    read: (_given, result) => ({ ...result, words: [], warnings: ['words: the provider gave no times'] }),
  })
  t.same(warned.faults, [], 'a loss that is told is none')
})

/** Words are no part of what is asked for. */
const heardAnyway: Vendor['heard'] = (answer, options) => ({
  ...VENDOR.heard(answer, options),
  isWhole: true,
})

t.test('what a newer document says is counted apart', async (t) => {
  const twist: Twist = { fields: () => [['colour', 'red']] }
  const { faults, requests } = await check(twist, {
    beyond: [{ fault: /\(colour\)/, source: 'a newer one' }],
  })
  t.same(faults, [])
  t.equal(requests.valid, 0)
  t.ok(requests.beyond > 0)
})

t.test('an exchange at a door is held to the contract, whole and event by event', async (t) => {
  const message = (type: string) => ({
    type: 'object',
    required: ['type', 'text'],
    properties: { type: { const: type }, text: string },
  })
  const content = (schema: object) => ({ 'application/json': { schema } })
  const answers = { ...content(message('whole')), 'text/event-stream': { schema: message('event') } }
  const contract = new Contract({
    ...CONTRACT,
    paths: {
      '/talk': {
        post: {
          requestBody: { content: content(message('asked')) },
          responses: { '200': { content: answers } },
        },
      },
    },
  })
  const asking = (json: object, path = '/talk') => {
    const request = requestTo('POST', `${VENDOR.root}${path}`, { json })
    return { ...request, headers: { ...request.headers, 'x-key': 'secret' } }
  }
  const good: DoorCase = {
    ...{ name: 'talk', request: asking({ type: 'asked', text: 'a' }), refusal: null, wrong: [] },
    ...{ answers: [{ type: 'whole', text: 'b' }], events: [{ type: 'event', text: 'c' }] },
  }
  const held = async (change: Partial<DoorCase>) => {
    const vendor = { ...VENDOR, refusal: 'Word', door: async () => [{ ...good, ...change }] }
    const { faults, requests, answers } = await checkContract(contract, vendor, [])
    return [faults.map(({ what }) => what), requests.valid, answers.right]
  }
  t.same(await held({}), [[], 1, 1])
  const missing = (what: string) => [`door: ${what} of /talk must have required property 'text' (text)`]
  t.same(await held({ request: asking({ type: 'asked' }) }), [
    ["POST /talk body must have required property 'text' (text)"],
    ...[0, 1],
  ])
  t.same(await held({ answers: [{ type: 'whole' }] }), [missing('answer'), 1, 0])
  t.same(await held({ events: [...good.events, { type: 'event' }] }), [missing('event'), 1, 0])
  t.same(await held({ wrong: ['ignores a'] }), [['door: /talk ignores a'], 1, 1])
  const refusal = { code: 400 }
  t.same(await held({ answers: [], refusal }), [
    ["door: refusal of /talk must have required property 'word' (word)"],
    ...[1, 0],
  ])
  const nowhere = ['POST  POST /nowhere is no operation of the contract']
  t.same(await held({ request: asking({}, '/nowhere') }), [nowhere, 0, 0])
})

t.test(
  'the command says what it checked, what it skipped, and ends with 1 for either nothing or a fault',
  async (t) => {
    let printed = ''
    const run = (...args: string[]) => {
      printed = ''
      return main(args, (text) => (printed += text))
    }
    t.equal(await run('--help'), 0)
    t.match(printed, /^npm run check:contracts -- FOLDER/)
    t.match(printed, /openai\.yaml/)
    t.equal(await run(), 2)
    t.equal(await run(t.testdir({})), 1)
    t.match(printed, /Skipped, not in .*: 5 of 5: OpenAI \(openai\.yaml\), Deepgram/)
    const folder = t.testdir({ 'mistral.json': JSON.stringify({ ...CONTRACT, openapi: '3.1.0' }) })
    t.equal(await run(folder), 1)
    t.match(printed, /\nMistral +mistral\.json +0\/\d+ /)
    t.match(printed, /POST \/v1\/audio\/transcriptions is no operation of the contract/)
    t.match(printed, /4 of 5/)
    t.equal(await run(folder, '--vendor', 'openai'), 1)
  },
)

t.test('each way in which a door breaks its table is found', async (t) => {
  const query = (name: string, schema: object) => ({ name, in: 'query', schema })
  const contract = new Contract({
    paths: {
      '/talk': {
        post: {
          parameters: [query('loud', { type: 'boolean' }), query('tone', { enum: ['low', 'high'] })],
          requestBody: {
            content: {
              'application/json': { schema: { properties: { text: string, pace: { type: 'number' } } } },
            },
          },
          responses: { '200': { content: { 'application/json': { schema: {} } } } },
        },
      },
    },
  })
  const good: DoorEndpoint = {
    door: {
      name: 'openai',
      tag: 'OpenAI',
      requestIdHeader: 'x-request-id',
      translateError: (error) => error,
    },
    ...{ method: 'POST', path: '/talk', bodyAs: 'json', always: { text: 'a' }, besides: [] },
    table: {
      loud: { fate: 'refused', note: 'b' },
      tone: { fate: 'warned', note: 'c' },
      pace: { fate: 'kept', note: 'd' },
    },
    ask({ query, body }) {
      if (query.get('loud') === 'true') throw invalidField('loud', 'must be left out')
      return { warnings: query.has('tone') ? ['tone: c'] : [], answers: [{ pace: body.pace ?? 0 }] }
    },
  }
  const asked = (change: Partial<DoorEndpoint>) =>
    doorCases(contract, 'https://nobody.example', { ...good, ...change })
  const cases = asked({})
  const alone = ['', 'loud=true', 'loud=false', 'tone="low"', 'tone="high"', 'pace=1']
  const pairs = ['loud=true tone="low"', 'loud=true pace=1', 'tone="low" pace=1']
  t.same(
    cases.map(({ name }) => name.replace(/^POST \/talk ?/, '')).sort(),
    [...alone, ...pairs].sort(),
    'every value alone, and every pair',
  )
  t.same(new Set(cases.flatMap(({ wrong }) => wrong)), new Set())
  t.equal(cases.filter(({ answers }) => answers.length === 0).length, 3)
  const refusing = (param: string, code?: 'UPSTREAM_ERROR') => () => {
    throw code === undefined ? invalidField(param, 'must not be') : new GatewayError(code, 'no')
  }
  const answering =
    (...warnings: string[]) =>
    () => ({ warnings, answers: [] })
  const fails = (): never => {
    throw new TypeError('no such thing')
  }
  const rows: [name: string, change: Partial<DoorEndpoint>, wrong: RegExp][] = [
    [
      'no row',
      { table: { loud: good.table.loud!, tone: good.table.tone! } },
      /^pace has no row in the table$/,
    ],
    ['taken', { ask: answering('tone: c') }, /^loud is taken, which the table says is refused$/],
    ['silent', { ask: answering() }, /^tone has no effect, and no warning says so$/],
    ['unknown', { ask: answering('tone: c', 'pace: unknown field, ignored') }, /^ignores pace: unknown/],
    ['a warned one refused', { ask: refusing('tone') }, /^refuses tone, which the table says is warned$/],
    ['another refused', { ask: refusing('text') }, /^refuses text, which was not sent/],
    ['failed', { ask: refusing('', 'UPSTREAM_ERROR') }, /^is answered UPSTREAM_ERROR/],
    ['thrown', { ask: () => fails() }, /^throws TypeError/],
  ]
  for (const [name, change, wrong] of rows)
    t.ok(
      asked(change).some((one) => one.wrong.some((what) => wrong.test(what))),
      name,
    )
})
