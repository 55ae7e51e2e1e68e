import t from 'tap'
import type { SpeechCall } from '../../../../src/contracts/calls.ts'
import type { Provider } from '../../../../src/contracts/provider.ts'
import { openai } from '../../../../src/gateway/providers/openai/provider.ts'
import { openaiCompatible } from '../../../../src/gateway/providers/openai-compatible.ts'
import { speechCall } from '../../../support/call.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { reply } from '../../../support/replies.ts'
import { streamOf } from '../../../support/stream-of.ts'

const TARGET = { model: 'tts-1', baseUrl: 'https://api.openai.com/v1', credential: 'sk-secret', options: {} }

function start(provider: Provider, overrides: Partial<SpeechCall>) {
  return provider.speech!.start(speechCall(overrides).payload, TARGET)
}

function next(
  provider: Provider,
  overrides: Partial<SpeechCall>,
  body: string,
  headers: Record<string, string>,
) {
  return provider.speech!.next(null, reply(body, 200, headers), speechCall(overrides).payload, TARGET)
}

t.test('the request', async (t) => {
  const request = requestOf(start(openai, {}))
  t.equal(request.url, 'https://api.openai.com/v1/audio/speech')
  t.match(request.headers, { authorization: 'Bearer sk-secret' })
  t.equal(request.headers['content-type'], 'application/json')
  const rows: [Provider, Partial<SpeechCall>, Record<string, unknown>][] = [
    [openai, {}, { model: 'tts-1', input: 'hello', voice: 'alloy', response_format: 'mp3' }],
    [
      openai,
      { input: '"\r\né', voice: 'nova', response_format: 'pcm', speed: 0.25 },
      { model: 'tts-1', input: '"\r\né', voice: 'nova', response_format: 'pcm', speed: 0.25 },
    ],
    [openaiCompatible, {}, { model: 'tts-1', input: 'hello', voice: 'alloy' }],
    [
      openaiCompatible,
      { response_format: 'ogg' },
      { model: 'tts-1', input: 'hello', voice: 'alloy', response_format: 'ogg' },
    ],
  ]
  for (const [provider, call, expected] of rows) {
    t.same(JSON.parse(bytesOf(requestOf(start(provider, call))).toString()), expected)
  }
})

t.test('what the provider does not take is refused, never replaced', async (t) => {
  for (const call of [
    { response_format: 'mp4' },
    { response_format: 'MP3' },
    { speed: 0.2 },
    { speed: 4.1 },
  ]) {
    t.match(
      start(openai, call),
      { kind: 'failed', failure: { kind: 'model', status: null } },
      JSON.stringify(call),
    )
  }
})

t.test('the answer’s media type', async (t) => {
  const rows: [Provider, string | null, string, string | null][] = [
    [openai, null, 'audio/mpeg', 'audio/mpeg'],
    [openai, 'mp3', 'application/octet-stream', 'audio/mpeg'],
    [openai, 'opus', 'audio/opus', 'audio/ogg'],
    [openai, 'aac', 'audio/aac', 'audio/aac'],
    [openai, 'flac', 'audio/flac', 'audio/flac'],
    [openai, 'wav', 'audio/wav; charset=x', 'audio/wav'],
    [openai, 'pcm', '', 'audio/pcm'],
    [openaiCompatible, null, 'Audio/WAV; rate=24000', 'audio/wav'],
    [openaiCompatible, 'ogg', 'audio/ogg', 'audio/ogg'],
    [openaiCompatible, null, 'application/octet-stream', null],
    [openai, 'mp3', 'application/json', null],
    [openai, 'mp3', 'text/html; charset=utf-8', null],
  ]
  for (const [provider, format, contentType, expected] of rows) {
    const step = next(provider, { response_format: format }, 'bytes', { 'content-type': contentType })
    const label = `${provider.kind} ${format} ${contentType}`
    if (expected === null) t.match(step, { kind: 'failed', failure: { kind: 'server' } }, label)
    else t.match(step, { kind: 'done', result: { mediaType: expected } }, label)
  }
})

t.test('the bytes are passed on as they came; none is a failure', async (t) => {
  const step = next(openai, {}, 'ID3 bytes', { 'content-type': 'audio/mpeg' })
  t.equal(step.kind === 'done' ? Buffer.concat(step.result.audio).toString() : '', 'ID3 bytes')
  t.match(next(openai, {}, '', { 'content-type': 'audio/mpeg' }), {
    kind: 'failed',
    failure: { kind: 'server' },
  })
})

t.test('a refusal of the provider is classified', async (t) => {
  const body = {
    error: { message: 'Input should be …', type: 'invalid_request_error', param: 'voice', code: null },
  }
  const step = openai.speech!.next(null, reply(body, 400), speechCall().payload, TARGET)
  t.match(step, { kind: 'failed', failure: { kind: 'caller', status: 400 } })
})

t.test('streamed: the same request, and the bytes as they come', async (t) => {
  const call = speechCall({ response_format: 'mp3' }).payload
  for (const provider of [openai, openaiCompatible]) {
    const streamed = provider.speech!.streamed!
    t.same(streamed.start(call, TARGET), provider.speech!.start(call, TARGET), provider.kind)
    const head = { status: 200, headers: { 'content-type': 'audio/mpeg' } }
    const { deltas, result } = streamOf(streamed.read(head, call, TARGET), 'ID3 some bytes', 5)
    t.equal(Buffer.concat(deltas.map(({ bytes }) => bytes)).toString(), 'ID3 some bytes')
    t.same([...new Set(deltas.map(({ mediaType }) => mediaType))], ['audio/mpeg'])
    t.same(result, { audio: [], mediaType: 'audio/mpeg' }, 'what has gone out is not kept')
    t.match(streamOf(streamed.read(head, call, TARGET), ''), { failure: { kind: 'server' } })
    t.match(streamed.refused(reply({ error: { message: 'x', param: 'voice' } }, 404)), { kind: 'caller' })
  }
  t.match(openai.speech!.streamed!.start({ ...call, speed: 9 }, TARGET), { failure: { kind: 'model' } })
})

t.test('streamed: what is no audio is not passed on', async (t) => {
  const rows: [Provider, string | null, string][] = [
    [openai, 'mp3', 'application/json'],
    [openai, null, 'text/html'],
    [openaiCompatible, null, 'application/octet-stream'],
    [openaiCompatible, null, ''],
  ]
  for (const [provider, format, contentType] of rows) {
    const call = speechCall({ response_format: format }).payload
    const head = { status: 200, headers: { 'content-type': contentType } }
    for (const body of ['{"error":1}', '']) {
      const read = streamOf(provider.speech!.streamed!.read(head, call, TARGET), body)
      t.match(
        read,
        { deltas: [], failure: { kind: 'server', status: 200 } },
        `${provider.kind} ${contentType}`,
      )
    }
  }
})
