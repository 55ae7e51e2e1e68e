import t from 'tap'
import type { Operation, Step, Target } from '../../../src/contracts/provider.ts'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'
import { audio, options } from '../../support/call.ts'
import { fixture, reply } from '../../support/replies.ts'

const FILMED = { prompt: 'a lark', duration_seconds: null, size: null, seed: null }
const HEARD = { audio: audio(), options: options() }
const tasks = (await fixture('runway/tasks.json')) as Record<string, unknown>
const filming = { id: 'video_1', object: 'video', status: 'queued' }

/** How each of them is asked to, and the answers up to the first look. */
const ROWS: readonly [kind: string, name: 'transcription' | 'video', answers: readonly unknown[]][] = [
  [
    'assemblyai',
    'transcription',
    [{ upload_url: 'https://cdn.example.com/1' }, { id: 'a-1', status: 'queued' }],
  ],
  ['runway', 'video', [tasks.created]],
  ['gemini', 'video', [{ id: 'v1_a', status: 'in_progress' }]],
  ['openai-compatible', 'video', [filming]],
  ['sandbox', 'video', [filming]],
]

function operationOf(kind: string, name: 'transcription' | 'video') {
  const provider = PROVIDERS.get(kind)
  return provider?.[name] as unknown as Operation<unknown, unknown>
}

function targetOf(kind: string): Target {
  const model = kind === 'runway' ? 'gen4.5' : 'model'
  return { model, baseUrl: 'https://api.example.com/v1', credential: 'key_secret', options: {} }
}

/** The step that waits for the first look at what was ordered. */
function firstWait(kind: string, name: 'transcription' | 'video', answers: readonly unknown[]) {
  const operation = operationOf(kind, name)
  const call = name === 'video' ? FILMED : HEARD
  let step: Step<unknown> = operation.start(call, targetOf(kind))
  for (const answer of answers)
    if (step.kind === 'send') step = operation.next(step.state, reply(answer), call, targetOf(kind))
  if (step.kind !== 'wait') throw new Error(`${kind}: the step is ${step.kind}`)
  return step
}

t.test('every operation that waits can be gone on with', async (t) => {
  const known = ROWS.map(([kind, name]) => `${kind} ${name}`)
  for (const [kind, provider] of PROVIDERS)
    for (const [name, operation] of Object.entries(provider)) {
      const waits = typeof operation === 'object' && operation !== null && 'abandon' in operation
      if (waits) t.ok(known.includes(`${kind} ${name}`), `${kind} ${name}`)
    }
  for (const [kind, name] of ROWS) t.type(operationOf(kind, name).resume, 'function', `${kind} ${name}`)
})

t.test('from what was kept comes the next look, wherever and as whomever it is asked', async (t) => {
  for (const [kind, name, answers] of ROWS) {
    const wait = firstWait(kind, name, answers)
    const kept = JSON.stringify(wait.state)
    t.notMatch(kept, /key_secret|example\.com/, `${kind}: no key, no address`)
    t.ok(kept.length < 1_000)
    const { resume } = operationOf(kind, name)
    const target = targetOf(kind)
    const resumed = resume?.(JSON.parse(kept), target)
    t.match(resumed, { kind: 'wait', request: { method: 'GET', url: wait.request.url } }, kind)
    const { request, state, waitMs } = resumed as Extract<Step<unknown>, { kind: 'wait' }>
    t.same(request, wait.request, `${kind}: the same look`)
    t.ok(waitMs >= 1_000 && waitMs <= 5_000, `${kind}: not at once, the last look may have been a moment ago`)

    const moved = { ...target, credential: 'key_new', baseUrl: 'https://eu.example.com/v1' }
    const elsewhere = resume?.(JSON.parse(JSON.stringify(state)), moved)
    t.match(elsewhere, { request: { url: /^https:\/\/eu\.example\.com\/v1\// } }, kind)
    t.match(JSON.stringify(elsewhere), 'key_new', `${kind}: the key of now`)
  }
})

t.test('nothing but the name of the order counts of what was kept', async (t) => {
  for (const [kind, name, answers] of ROWS) {
    const wait = firstWait(kind, name, answers)
    const { id } = wait.state as { id: string }
    const { resume } = operationOf(kind, name)
    const plain = resume?.({ id }, targetOf(kind))
    t.match(plain, { kind: 'wait', request: { url: wait.request.url } }, kind)
    const odd = { id, everyMs: -1e9, troubles: 'x', polls: 1e9, stage: 'delete', ending: { kind: 'done' } }
    t.same(resume?.(odd, targetOf(kind)), plain, kind)
  }
})

t.test('what names no order cannot be gone on with', async (t) => {
  const names = [null, 7, true, {}, [], '', '.', '..', 'x'.repeat(5_000), '\ud800']
  const states = [undefined, null, 0, 'a-1', [], [{ id: 'a-1' }], {}, ...names.map((id) => ({ id }))]
  for (const [kind, name] of ROWS)
    for (const state of states)
      t.equal(
        operationOf(kind, name).resume?.(state, targetOf(kind)),
        null,
        `${kind}: ${JSON.stringify(state)}`,
      )
  const paths = ['../secret', 'a/b', 'a?b=c', 'a#b', 'a b', 'a%2fb']
  for (const [kind, name] of ROWS)
    for (const id of paths) {
      const step = operationOf(kind, name).resume?.({ id }, targetOf(kind)) ?? null
      if (step?.kind !== 'wait') continue
      const { pathname, search, hash } = new URL(step.request.url)
      t.match(pathname, /^\/v1\/\w+\/[^/]+$/, `${kind}: ${id} stays one name`)
      t.equal(search + hash, '')
    }
})
