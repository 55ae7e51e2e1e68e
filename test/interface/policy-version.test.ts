import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startGateway } from '../support/gateway.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { filledWav } from '../support/wav.ts'

const WORKSPACE = 'acme'

/** A key whose app routes chats, what is heard, and a purpose to one model each. */
async function start(t: Test) {
  const upstream = await startUpstream(t)
  const key = makeKey()
  const route = (model: string, capabilities: readonly string[]) => ({
    workspace: WORKSPACE,
    entries: [{ provider: 'models', model, capabilities }],
  })
  const config = {
    providers: {
      models: { kind: 'openai-compatible', access: 'byok', workspace: WORKSPACE, base_url: upstream.url },
    },
    routes: {
      chats: route('chats', ['text']),
      voice: route('voice', ['audio_input']),
      notes: route('notes', ['text']),
    },
    workspaces: {
      acme: {
        purposes: { notes: {} },
        apps: {
          web: { route: 'chats', capability_routes: { audio_input: 'voice' }, purposes: { notes: 'notes' } },
        },
        keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }],
      },
    },
  }
  const larkway = await startGateway(t, { config, key })
  const authorization = `Bearer ${key}`
  const me = await fetch(`${larkway.url}/v1/me`, { headers: { authorization } })
  const { routing_contexts: contexts } = (await me.json()) as {
    routing_contexts: { policy_version_id: string }[]
  }
  const [chats = '', voice = ''] = contexts.map(({ policy_version_id }) => policy_version_id)
  const send = async (path: string, headers: Record<string, string>, body: Uint8Array | string) => {
    const response = await fetch(larkway.url + path, {
      method: 'POST',
      headers: { authorization, ...headers },
      body,
    })
    const { error } = (await response.json()) as {
      error?: { code: string; details: { policy_version_id?: string } }
    }
    const inHeader = response.headers.get('x-lk-policy-version-id')
    return { code: error?.code, inHeader, inDetails: error?.details.policy_version_id }
  }
  const json = { 'content-type': 'application/json' }
  return {
    upstream,
    chats,
    voice,
    chat: (headers: Record<string, string> = {}) =>
      send('/v1/chat', { ...json, ...headers }, '{"messages":[{"role":"user","content":"hello"}]}'),
    transcribe: (query = '') =>
      send(`/v1/transcription${query}`, { 'content-type': 'audio/wav' }, filledWav(32_044, 1)),
  }
}

t.test('a refusal names the version of the route that would have served', async (t) => {
  const { upstream, chats, voice, chat, transcribe } = await start(t)
  const refused = await transcribe('?diarization=true')
  t.same(refused, { code: 'REQUIRED_FEATURE_UNAVAILABLE', inHeader: voice, inDetails: voice })
  t.same(await transcribe('?stream=maybe'), {
    code: 'INVALID_REQUEST',
    inHeader: chats,
    inDetails: undefined,
  })

  upstream.behave('notes', { status: 500 })
  upstream.behave('chats', { status: 500 })
  const failed = await chat({ 'x-lk-purpose': 'notes' })
  t.same(failed, { code: 'UPSTREAM_ERROR', inHeader: chats, inDetails: chats }, 'the last that was tried')
  upstream.behave('notes', { status: 400 })
  const rejected = await chat({ 'x-lk-purpose': 'notes' })
  t.equal(rejected.code, 'UPSTREAM_REJECTED')
  t.match(rejected.inHeader, /^pv_/)
  t.not(rejected.inHeader, chats, 'the one that refused the input')
  t.equal(rejected.inDetails, rejected.inHeader)
})
