import t from 'tap'
import type { EmbeddingsCall } from '../../../../src/contracts/generation.ts'
import { openai } from '../../../../src/gateway/providers/openai/provider.ts'
import { openaiCompatible } from '../../../../src/gateway/providers/openai-compatible.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { fixture, reply } from '../../../support/replies.ts'

const TARGET = {
  model: 'text-embedding-3-small',
  baseUrl: 'https://api.openai.com/v1',
  credential: 'sk',
  options: {},
}

const TWO: EmbeddingsCall = { input: ['a', 'b'], dimensions: null }

function next(body: unknown, call: EmbeddingsCall = TWO, status = 200) {
  return openai.embeddings!.next(null, reply(body, status), call, TARGET)
}

const item = (embedding: unknown, index?: number) => ({
  embedding,
  ...(index === undefined ? {} : { index }),
})

t.test('the request', async (t) => {
  const request = requestOf(openai.embeddings!.start(TWO, TARGET))
  t.equal(request.url, 'https://api.openai.com/v1/embeddings')
  const sent = JSON.parse(bytesOf(request).toString())
  t.same(sent, { model: TARGET.model, input: ['a', 'b'], encoding_format: 'base64' })
  const short = requestOf(openaiCompatible.embeddings!.start({ input: ['a'], dimensions: 256 }, TARGET))
  t.same(JSON.parse(bytesOf(short).toString()), { model: TARGET.model, input: ['a'], dimensions: 256 })
})

t.test('base64 of floats, in the order of the texts', async (t) => {
  const step = next(await fixture('openai/embeddings.base64.json'))
  t.same(step, {
    kind: 'done',
    result: {
      embeddings: [
        [Math.fround(0.1), 1, -2],
        [0.5, -1, 0],
      ],
      usage: { input_tokens: 8, output_tokens: 0 },
    },
  })
})

t.test('numbers are read as well, and an order without indices', async (t) => {
  const step = next({ data: [item([0.25, -1e-7]), item([1, 2])] })
  const embeddings = [
    [0.25, -1e-7],
    [1, 2],
  ]
  t.same(step, { kind: 'done', result: { embeddings, usage: null } })
})

t.test('what cannot be what was asked for', async (t) => {
  const rows: [unknown, RegExp, EmbeddingsCall?][] = [
    [{ data: [item([1], 0)] }, /number of embeddings/],
    [{ data: [item([1]), item([1]), item([1])] }, /number of embeddings/],
    [{}, /number of embeddings/],
    [{ data: [item([1], 0), item([1], 0)] }, /told apart/],
    [{ data: [item([1], 0), item([1], 2)] }, /told apart/],
    [{ data: [item([1], 0), item([], 1)] }, /cannot be read/],
    [{ data: [item([1], 0), item([1, 'x'], 1)] }, /cannot be read/],
    [{ data: [item([1], 0), item('AAA=', 1)] }, /cannot be read/],
    [{ data: [item([1], 0), item('AADAfw==', 1)] }, /cannot be read/],
    [{ data: [item([1, 2, 3], 0)] }, /dimensions/, { input: ['a'], dimensions: 2 }],
  ]
  for (const [body, reason, call] of rows) {
    const failure = { kind: 'server', status: 200, reason }
    t.match(next(body, call), { kind: 'failed', failure }, JSON.stringify(body))
  }
  t.match(next({ error: { message: 'x', param: 'input' } }, TWO, 400), { failure: { kind: 'caller' } })
  t.match(next({ data: [item([1, 2])] }, { input: ['a'], dimensions: 2 }), { kind: 'done' })
})
