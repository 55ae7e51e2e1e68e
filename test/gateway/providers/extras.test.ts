import t from 'tap'
import { EXTRA_NAMES, type ExtraName, type ExtraOption } from '../../../src/contracts/extras.ts'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'
import { openai } from '../../../src/gateway/providers/openai/provider.ts'
import { chatCall, WEATHER } from '../../support/call.ts'
import { bytesOf, requestOf } from '../../support/form-of.ts'
import { reply } from '../../support/replies.ts'
import { sse, streamOf } from '../../support/stream-of.ts'

const targetOf = (model: string) => ({ model, baseUrl: 'http://a/v1', credential: null, options: {} })
const extra = (name: ExtraName, value: unknown, required = true): ExtraOption => ({ name, value, required })
const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream' } }

const OF_CHATS: readonly ExtraName[] = [
  ...(['n', 'logprobs', 'top_logprobs', 'logit_bias', 'parallel_tool_calls', 'service_tier'] as const),
  ...(['prompt_cache_key', 'prompt_cache_options', 'prompt_cache_retention', 'messages[].name'] as const),
  ...(['reasoning_effort', 'verbosity', 'frequency_penalty', 'presence_penalty', 'prediction'] as const),
]
const REASONED: readonly ExtraName[] = ['reasoning_effort', 'verbosity']
const SAMPLED: readonly ExtraName[] = [
  ...(['logprobs', 'top_logprobs', 'logit_bias', 'frequency_penalty', 'presence_penalty'] as const),
  'prediction',
]

t.test('which options of a chat each kind of provider takes', async (t) => {
  const without = (names: readonly ExtraName[]) => OF_CHATS.filter((name) => !names.includes(name))
  const rows: [kind: string, model: string, taken: readonly ExtraName[]][] = [
    ['openai', 'gpt-4.1', without(REASONED)],
    ['openai', 'gpt-5-chat-latest', without(REASONED)],
    ['openai', 'gpt-6-luna', without(SAMPLED)],
    ['openai', 'o4-mini', without(SAMPLED)],
    ['openai-compatible', 'any', OF_CHATS],
    ['groq', 'llama-4', ['parallel_tool_calls', 'messages[].name', 'service_tier']],
    ['groq', 'gpt-oss-120b', ['parallel_tool_calls', 'messages[].name', 'service_tier', 'reasoning_effort']],
    ['sandbox', 'morse-1', ['n', 'parallel_tool_calls']],
    ['anthropic', 'claude-opus-5-5', ['parallel_tool_calls']],
    ['gemini', 'gemini-3.8-flash', []],
  ]
  for (const [kind, model, taken] of rows) {
    const value = (name: ExtraName) => (name === 'service_tier' ? 'flex' : 'low')
    const chat = PROVIDERS.get(kind)?.chat
    const found = OF_CHATS.filter((name) => chat?.takesExtra?.(extra(name, value(name)), targetOf(model)))
    t.same(
      found,
      OF_CHATS.filter((name) => taken.includes(name)),
      `${kind} ${model}`,
    )
  }
  const groq = PROVIDERS.get('groq')?.chat
  t.notOk(groq?.takesExtra?.(extra('service_tier', 'priority'), targetOf('llama-4')))
  t.notOk(groq?.takesExtra?.(extra('reasoning_effort', 'xhigh'), targetOf('gpt-oss-120b')))
})

t.test('a text completion by a chat takes what means the same there', async (t) => {
  const complete = PROVIDERS.get('openai')?.complete
  const taken = EXTRA_NAMES.filter((name) => complete?.takesExtra?.(extra(name, 1), targetOf('gpt-4.1')))
  for (const name of ['best_of', 'echo', 'suffix', 'logprobs'] as const) t.notOk(taken.includes(name), name)
  for (const name of ['n', 'logit_bias', 'frequency_penalty'] as const) t.ok(taken.includes(name), name)
})

t.test('one call at a time is a word of its own at Anthropic', async (t) => {
  const sent = (more: object) => {
    const extras = [extra('parallel_tool_calls', false)]
    const step = PROVIDERS.get('anthropic')!.chat!.start(chatCall({ extras, ...more }), targetOf('claude'))
    return JSON.parse(bytesOf(requestOf(step)).toString()).tool_choice
  }
  t.same(sent({ tools: [WEATHER] }), { type: 'auto', disable_parallel_tool_use: true })
  t.same(sent({ tools: [WEATHER], tool_choice: 'required' }), {
    ...{ type: 'any', disable_parallel_tool_use: true },
  })
  t.same(sent({ tools: [WEATHER], tool_choice: 'none' }), { type: 'none' })
  t.equal(sent({}), undefined)
})

t.test('choices and figures that were not asked for, or cannot be, are left out', async (t) => {
  const chat = openai.chat!
  const asked = chatCall({ extras: [extra('n', 2), extra('logprobs', true)] })
  const choice = (index: unknown, content: string, logprobs: unknown = null) => ({
    ...{ index, delta: { content }, message: { content }, finish_reason: 'stop', logprobs },
  })
  const figure = { token: 'a', logprob: -1, bytes: 'x', top_logprobs: [{ token: 'b' }, 7] }
  const choices = [
    choice(1, 'second'),
    choice(9e9, 'far', { content: [figure] }),
    choice(-1, 'before'),
    choice(0, 'first', { content: [figure, { token: 5 }, null], refusal: 'no', more: 1 }),
  ]
  const logprobs = {
    ...{ content: [{ token: 'a', logprob: -1, bytes: null, top_logprobs: [] }], refusal: null },
  }
  const events = choices.map((one) => sse({ choices: [one] })).join('')
  const reader = chat.streamed!.read(HEAD, asked, targetOf('gpt-4.1'))
  const { deltas, result } = streamOf(reader, `${events}${sse('[DONE]')}`)
  t.same(deltas, [
    { type: 'text', text: 'second', choice: 1 },
    { type: 'text', text: 'first', logprobs },
  ])
  t.match(result, { content: 'first', logprobs, others: [{ content: 'second' }] })

  const body = JSON.stringify({
    choices: [choices[0], choices[3]],
    service_tier: 'odd',
    system_fingerprint: 7,
  })
  const whole = chat.next(null, reply(body), asked, targetOf('gpt-4.1'))
  t.match(whole, { result: { content: 'first', logprobs, others: [{ content: 'second' }] } })
  t.notOk('facts' in (whole as unknown as { result: object }).result, 'words that are not OpenAI’s')
  const plain = chat.next(null, reply(body), chatCall(), targetOf('gpt-4.1'))
  t.notMatch(plain, { result: { logprobs: Object } })
})
