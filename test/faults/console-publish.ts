import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { type Told, type Visitor, visit } from '../support/console-bench.ts'
import { startFleet } from '../support/fleet.ts'
import type { Larkway } from '../support/larkway.ts'
import type { ReceivedRequest, Script } from '../support/upstream/dialect.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

/** They publish in turn: one alone is slowed down by the rate that a key may use the console at. */
const OPERATORS = 4
/** Calls that are under way at a time, at each node. */
const CALLERS = 4
const ROUTE = 'workspaces/acme/routes/acme.live'
/** The console's promise: every node serves what was published. */
const KNOWN_EVERYWHERE_MS = 5_000

type Attempt = { readonly model: string; readonly reason: string }
type Line = Readonly<Record<string, unknown>>

/** The models `first-…` always fail; every other one answers its name. */
function answer({ model }: ReceivedRequest): Script {
  return model.startsWith('first-') ? { status: 500 } : {}
}

/** Two nodes of one Redis, whose file knows a provider and a workspace without a route worth the name. */
async function startNodes(t: Test) {
  const { url } = await startUpstream(t, { script: answer })
  const provider = { kind: 'openai-compatible', access: 'byok', workspace: 'acme', base_url: url }
  const operators = Array.from({ length: OPERATORS }, makeKey)
  const keys = operators.map((key, at) => {
    return { id: `key_${at}`, app: 'web', sha256: hashKey(key), scopes: ['operator'] }
  })
  const fleet = await startFleet(t, {
    ...{ nodes: 2, redis: {} },
    providers: { up: { ...provider, capabilities: ['text'] } },
    workspaces: { acme: { entries: [{ provider: 'up', model: 'file' }], terms: { keys } } },
  })
  const visitors = await Promise.all(operators.map((key) => visit(fleet.node().url, key)))
  return { nodes: [fleet.node(), fleet.node(1)] as const, visitors, visitor: visitors[0]! }
}

/** Both entries bear the number of the version, so that half of one and half of another would be seen. */
function fieldsOf(number: number) {
  const entries = [`first-${number}`, `second-${number}`].map((model) => ({ provider: 'up', model }))
  return { workspace: 'acme', entries }
}

function succeeded({ status, text, body }: Told): Readonly<Record<string, unknown>> {
  if (status >= 300) throw new Error(`${status} ${text}`)
  return body
}

/** @returns the version that is served from now on, `pv_…` */
async function publish(visitor: Visitor, number: number): Promise<string> {
  const saved = succeeded(
    await visitor.ask('PUT', `${ROUTE}/draft`, { fields: fieldsOf(number), revision: null }),
  )
  const { revision } = saved.draft as { revision: number }
  const { published } = succeeded(await visitor.ask('POST', `${ROUTE}/publish`, { revision }))
  return (published as { version: string }).version
}

async function call({ url }: Larkway, key: string) {
  const response = await fetch(`${url}/v1/chat`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] }),
  })
  const body = (await response.json()) as Line
  return { status: response.status, body, version: response.headers.get('x-lk-policy-version-id') }
}

/** Makes the app and a key for it, as one would in the console. */
async function makeKeyOf(visitor: Visitor): Promise<string> {
  succeeded(await visitor.ask('PUT', 'workspaces/acme/apps/live', { route: 'acme.live' }))
  const made = succeeded(await visitor.ask('POST', 'workspaces/acme/keys', { name: 'live', app: 'live' }))
  return String(made.key)
}

/** Publishes versions of a route beside calls to it, and proves that no call sees half of one and that none fails. */
export async function publishUnderLoad(t: Test, publications: number): Promise<void> {
  const { nodes, visitors, visitor } = await startNodes(t)
  const versions = new Map([[await publish(visitor, 0), 0]])
  const key = await makeKeyOf(visitor)
  await waitUntil(async () => (await call(nodes[1], key)).status === 200)

  const faults: unknown[] = []
  const pairs: (readonly [version: string, number: string])[] = []
  const seen: Readonly<Record<string, Set<string>>> = { 0: new Set(), 1: new Set() }
  let calls = 0
  let going = true
  const callers = nodes.flatMap((node, index) =>
    Array.from({ length: CALLERS }, async () => {
      while (going) {
        const { status, body, version } = await call(node, key)
        calls += 1
        seen[index]?.add(String(version))
        const number = String(body.model).replace('second-', '')
        if (status !== 200 || body.policy_version_id !== version) faults.push({ status, body, version })
        else pairs.push([String(version), number])
      }
    }),
  )
  const newest = () => [...versions.keys()].at(-1) ?? ''
  const isEverywhere = () => seen[1]?.has(newest()) === true
  await waitUntil(isEverywhere)
  for (let number = 1; number <= publications; number += 1) {
    versions.set(await publish(visitors[number % OPERATORS]!, number), number)
    // A fast machine may have published all of them before the other node looks once.
    if (number === Math.floor(publications / 2)) await waitUntil(isEverywhere)
  }
  const publishedAtMs = performance.now()
  await waitUntil(isEverywhere)
  const lateMs = performance.now() - publishedAtMs
  going = false
  await Promise.all(callers)

  t.same(faults, [], `none of ${calls} calls failed`)
  t.equal(versions.size, publications + 1, 'each publication is a version of its own')
  const mixed = pairs.filter(([version, number]) => String(versions.get(version)) !== number)
  t.same(mixed, [], 'each answer is of the version that it names')
  t.ok(lateMs < KNOWN_EVERYWHERE_MS, `the other node serves the last one after ${Math.round(lateMs)} ms`)
  t.ok((seen[0]?.size ?? 0) > publications / 10, `the node itself served ${seen[0]?.size} of the versions`)
  t.ok((seen[1]?.size ?? 0) > 2, `the other one served ${seen[1]?.size} of them`)

  await sleep(1_000) // the last lines of the logs
  const lines = nodes.flatMap(({ log }) =>
    log.filter(({ path, attempts }) => path === '/v1/chat' && attempts),
  )
  const torn = lines.filter(({ policy_version_id: version, attempts }) => {
    const number = versions.get(String(version))
    const models = (attempts as readonly Attempt[]).map(({ model }) => model)
    // Breakers open on entries that always fail: then the second one alone is tried.
    return models.some((model) => model !== `first-${number}` && model !== `second-${number}`)
  })
  t.ok(lines.length >= calls, `${lines.length} calls were logged`)
  t.same(torn, [], 'no call was tried at entries of two versions')
}
