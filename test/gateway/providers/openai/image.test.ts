import t from 'tap'
import type { ImageCall } from '../../../../src/contracts/generation.ts'
import { openai } from '../../../../src/gateway/providers/openai/provider.ts'
import { openaiCompatible } from '../../../../src/gateway/providers/openai-compatible.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { fixture, reply } from '../../../support/replies.ts'

const TARGET = { model: 'gpt-image-2', baseUrl: 'https://api.openai.com/v1', credential: 'sk', options: {} }

function call(overrides: Partial<ImageCall> = {}): ImageCall {
  return { prompt: 'a cat', n: 1, size: null, quality: null, output_format: null, seed: null, ...overrides }
}

function next(body: unknown, overrides: Partial<ImageCall> = {}, status = 200) {
  return openai.image!.next(null, reply(body, status), call(overrides), TARGET)
}

t.test('the request', async (t) => {
  const request = requestOf(openai.image!.start(call(), TARGET))
  t.equal(request.url, 'https://api.openai.com/v1/images/generations')
  t.same(JSON.parse(bytesOf(request).toString()), { model: 'gpt-image-2', prompt: 'a cat', n: 1 })
  const full = call({ n: 3, size: '1024x1536', quality: 'high', output_format: 'webp', seed: 4 })
  const sent = JSON.parse(bytesOf(requestOf(openai.image!.start(full, TARGET))).toString())
  const expected = { n: 3, size: '1024x1536', quality: 'high', output_format: 'webp' }
  t.same(sent, { model: 'gpt-image-2', prompt: 'a cat', ...expected }, 'it has no seed')
  t.notOk(openai.image!.takesSeed)
  const older = JSON.parse(bytesOf(requestOf(openaiCompatible.image!.start(call(), TARGET))).toString())
  t.equal(older.response_format, 'b64_json')
})

t.test('pictures are what their bytes say', async (t) => {
  t.same(next(await fixture('openai/image.json'), { n: 2 }), {
    kind: 'done',
    result: {
      images: [
        { base64: 'iVBORw0KGgoAAAANSUhEUg==', url: null, media_type: 'image/png' },
        { base64: 'UklGRhoAAABXRUJQ', url: null, media_type: 'image/webp' },
      ],
      usage: { input_tokens: 50, output_tokens: 1056 },
      made: { size: '1024x1024', quality: 'medium', output_format: 'png', background: 'opaque' },
      inputDetails: { text_tokens: 50, image_tokens: 0 },
      warnings: [],
    },
  })
  const odd = {
    data: [{ b64_json: 'AAAA' }],
    size: 'a b',
    quality: '<b>',
    background: 7,
    usage: { input_tokens_details: [] },
  }
  const { result } = next(odd) as { result: object }
  t.notOk('made' in result || 'inputDetails' in result, 'no words but those that are known')
  const rows: [object, Partial<ImageCall>, object][] = [
    [{ b64_json: '/9j/4AAQ' }, {}, { media_type: 'image/jpeg' }],
    [{ b64_json: 'R0lGODlh' }, {}, { media_type: 'image/gif' }],
    [{ b64_json: 'AAAA' }, { output_format: 'avif' }, { media_type: 'image/avif' }],
    [{ b64_json: 'AAAA' }, {}, { media_type: 'image/png' }],
    [{ url: 'https://cdn.example.com/1.png' }, {}, { base64: null, url: 'https://cdn.example.com/1.png' }],
  ]
  for (const [item, given, image] of rows) {
    t.match(next({ data: [item] }, given), { result: { images: [image] } }, JSON.stringify(item))
  }
  const said = next({ data: [{ b64_json: 'AAAA' }], output_format: 'x/y\r\n' })
  t.match(said, { result: { images: [{ media_type: 'image/png' }] } })
})

t.test('fewer than asked for is said, none is a failure', async (t) => {
  const one = next({ data: [{ b64_json: 'AAAA' }] }, { n: 2 })
  t.match(one, { kind: 'done', result: { warnings: ['n: 1 of 2 pictures were made'] } })
  for (const body of [
    { data: [] },
    {},
    { data: [{ b64_json: '' }] },
    { data: [{ url: 'file:///etc/passwd' }] },
  ]) {
    t.match(next(body), { kind: 'failed', failure: { kind: 'server' } }, JSON.stringify(body))
  }
})

t.test('a blocked prompt is the caller’s, whatever the status', async (t) => {
  const body = { error: { code: 'moderation_blocked', message: 'x', type: 'image_generation_user_error' } }
  t.match(next(body, {}, 400), { kind: 'failed', failure: { kind: 'content', status: 400 } })
})
