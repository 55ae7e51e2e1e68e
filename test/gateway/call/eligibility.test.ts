import t from 'tap'
import type { Capability } from '../../../src/contracts/calls.ts'
import type { ChatCall } from '../../../src/contracts/chat.ts'
import { CAPABILITY_OF, OPERATION_NAMES, type OperationName } from '../../../src/contracts/operations.ts'
import type { Call } from '../../../src/gateway/call/facts/call.ts'
import { configuredProvider, facts, principal, RICH, route } from '../../support/catalog.ts'
import { chatOf, models, named, PICTURE, pick, plainCall, refused, withRoute } from './selection.ts'

const capable = (model: string, capabilities: readonly Capability[], more = {}) =>
  named(model, { facts: facts({ capabilities, ...more }) })

/** What the refused entries lack, in their order. */
function missing<K extends OperationName>(operation: K, capabilities: readonly Capability[], call: Call<K>) {
  const error = refused(operation, withRoute([capable('lacking', capabilities)]), call)
  const rows = (error.extra.details?.entries ?? []) as { left: string; missing?: string[] }[]
  return [error.code, ...rows.map((row) => [row.left, row.missing])]
}

t.test('every endpoint needs its capability', async (t) => {
  for (const operation of OPERATION_NAMES) {
    const needed = CAPABILITY_OF[operation]
    const call = plainCall(operation)
    const who = withRoute([
      capable('lacking', ['audio_input', 'text'].includes(needed) ? ['image'] : ['text']),
    ])
    const error = refused(operation, who, call)
    t.equal(error.code, 'NO_HEALTHY_PROVIDER', operation)
    t.match(error.extra.details, {
      required_capabilities: [needed],
      entries: [{ left: 'capability', missing: [needed] }],
    })
    t.same(models(pick(operation, withRoute([capable('able', [needed])]), call)), ['able'], operation)
  }
})

t.test('what a chat holds adds capabilities', async (t) => {
  const tool = { name: 'look_up', description: null, parameters: null }
  const text = { type: 'text', text: 'hello' } as const
  const spoken: Pick<ChatCall, 'modalities'> = { modalities: ['text', 'audio'] }
  const rows: [string, Partial<ChatCall>, Capability[]][] = [
    ['text', {}, []],
    ['a picture', { messages: chatOf([text, PICTURE]).messages }, ['vision']],
    [
      'a picture in an earlier message',
      { messages: [...chatOf([PICTURE]).messages, ...chatOf([text]).messages] },
      ['vision'],
    ],
    ['tools', { tools: [tool] }, ['function_calling']],
    ['a spoken answer', spoken, ['audio_output']],
    [
      'all of it',
      { ...spoken, tools: [tool], messages: chatOf([PICTURE]).messages },
      ['function_calling', 'vision', 'audio_output'],
    ],
  ]
  for (const [name, overrides, added] of rows) {
    const call = plainCall('chat', overrides)
    const chain = withRoute([capable('talks', ['text']), capable('all', ['text', ...added])])
    t.same(models(pick('chat', chain, call)), added.length === 0 ? ['talks', 'all'] : ['all'], name)
    for (const lacked of added) {
      const others = added.filter((capability) => capability !== lacked)
      t.same(
        missing('chat', ['text', ...others], call),
        ['NO_HEALTHY_PROVIDER', ['capability', [lacked]]],
        name,
      )
    }
  }
  const looking = plainCall('vision', { tools: [tool] })
  t.same(missing('vision', [], looking), [
    'NO_HEALTHY_PROVIDER',
    ['capability', ['function_calling', 'vision']],
  ])
})

t.test('of several overrides the most specific one applies', async (t) => {
  const all: Capability[] = ['text', 'vision', 'function_calling', 'audio_output', 'audio_input']
  const routeOf = (name: string) => route([capable(name, all)], { name })
  const overriding = (...capabilities: Capability[]) =>
    principal({
      route: routeOf('own'),
      capabilityRoutes: new Map(capabilities.map((capability) => [capability, routeOf(capability)])),
    })
  const tools = [{ name: 'look_up', description: null, parameters: null }]
  const { messages } = chatOf([PICTURE])
  const looking = plainCall('chat', { messages, tools })
  const speaking = plainCall('chat', { messages, tools, modalities: ['audio'] })
  const rows = [
    [overriding(), looking, 'own'],
    [overriding('audio_input'), looking, 'own'],
    [overriding('text'), looking, 'text'],
    [overriding('text', 'vision'), plainCall('chat'), 'text'],
    [overriding('text', 'function_calling'), looking, 'function_calling'],
    [overriding('function_calling', 'vision', 'text'), looking, 'vision'],
    [overriding('audio_output', 'function_calling', 'vision', 'text'), looking, 'vision'],
    [overriding('vision', 'audio_output', 'text'), speaking, 'audio_output'],
  ] as const
  for (const [who, call, expected] of rows) t.same(models(pick('chat', who, call)), [expected])
  const onlySpeaks = principal({
    route: routeOf('own'),
    capabilityRoutes: new Map([
      ['audio_output', route([capable('speaker', ['audio_output'])], { name: 'speech' })],
    ]),
  })
  t.same(models(pick('chat', onlySpeaks, speaking)), ['own'], 'but for one that could not serve the call')
  const endpoint = plainCall('vision', { tools })
  t.same(models(pick('vision', overriding('function_calling', 'vision'), endpoint)), ['vision'])
})

t.test('a model is for the operations that its facts list, and its provider must have them', async (t) => {
  const both: Capability[] = ['text', 'audio_output']
  const chain = withRoute([
    capable('talker', both, { operations: ['chat'] }),
    capable('speaker', both, { operations: ['speech'] }),
    capable('either', both),
  ])
  t.same(models(pick('speech', chain, plainCall('speech'))), ['speaker', 'either'])
  t.same(models(pick('chat', chain, plainCall('chat'))), ['talker', 'either'])
  const only = refused(
    'speech',
    withRoute([capable('talker', both, { operations: ['chat'] })]),
    plainCall('speech'),
  )
  t.equal(only.code, 'NO_HEALTHY_PROVIDER')
  t.match(only.extra.details, { entries: [{ left: 'operation' }] })

  for (const kind of ['idle', 'not a kind']) {
    const idle = { ...capable('idle', both), provider: configuredProvider({ kind }) }
    const error = refused('chat', withRoute([idle]), plainCall('chat'))
    t.match(error.extra.details, { entries: [{ left: 'operation' }] }, kind)
  }
})

t.test('translation needs a model that translates', async (t) => {
  const hears = named('hears', { facts: facts({ translates: false }) })
  const call = plainCall('translation')
  t.equal(refused('translation', withRoute([hears]), call).code, 'NO_HEALTHY_PROVIDER')
  t.same(models(pick('translation', withRoute([hears, named('translates')]), call)), ['translates'])
  t.same(models(pick('transcription', withRoute([hears]), plainCall('transcription'))), ['hears'])
})

t.test('a plan includes each capability of the call, or nothing serves it', async (t) => {
  const on = (plan: string, includes: readonly Capability[] | null) => ({
    ...withRoute([capable('all', ['text', 'vision', 'audio_input'])]),
    workspace: {
      id: 'acme',
      name: 'Acme',
      plan,
      includes: includes === null ? null : new Set(includes),
      terms: RICH,
    },
  })
  const looking = plainCall('chat', { messages: chatOf([PICTURE]).messages })
  t.same(models(pick('chat', on('pro', ['text', 'vision']), looking)), ['all'])
  t.same(models(pick('chat', on('pro', null), looking)), ['all'])
  t.same(models(pick('chat', on('free', ['text']), plainCall('chat'))), ['all'])
  const error = refused('chat', on('free', ['text']), looking)
  t.equal(error.code, 'PLAN_NOT_ENTITLED')
  t.match(error.extra.details, { entries: [{ left: 'plan', missing: ['vision'] }] })
})

t.test('an entry may be for certain plans', async (t) => {
  const planned = named('planned', { plans: ['pro', 'max'] })
  const on = (plan: string | null) => ({
    ...withRoute([planned]),
    workspace: { id: 'acme', name: 'Acme', plan, includes: null, terms: RICH },
  })
  const call = plainCall('transcription')
  for (const plan of ['pro', 'max']) t.same(models(pick('transcription', on(plan), call)), ['planned'])
  for (const plan of ['free', null]) {
    const error = refused('transcription', on(plan), call)
    t.equal(error.code, 'PLAN_NOT_ENTITLED')
    t.match(error.extra.details, { entries: [{ left: 'plan', missing: undefined }] })
  }
})
