import OpenAI from 'openai'
import { test } from 'tap'
import { WebSocket } from 'ws'
import type { Principal } from '../../../../src/contracts/catalog.ts'
import { openSecret } from '../../../../src/gateway/api/openai/client-secrets.ts'
import { createEndUserHash } from '../../../../src/gateway/call/context/end-users.ts'
import { looksLikeKey } from '../../../../src/gateway/catalog/key.ts'
import { principal } from '../../../support/catalog.ts'
import { LiveClient, type LiveRig, openLive, wordsEntry } from '../../../support/live-rig.ts'
import { serveWords } from '../../../support/live-words.ts'

const SECRET_KEYS = [Buffer.alloc(32, 5)]
/** A workspace whose end users the rig's services hash. */
const RIG_SECRET = Buffer.alloc(32, 7)
const clientOf = ({ origin, authorization }: LiveRig) =>
  new OpenAI({ baseURL: `${origin}/openai/v1`, apiKey: authorization.slice('Bearer '.length), maxRetries: 0 })

async function open(t: Parameters<typeof openLive>[0], caller: Partial<Principal> = {}) {
  const provider = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')], { caller })
  const url = `${rig.origin.replace('http:', 'ws:')}/openai/v1/realtime`
  return { rig, url }
}

test('a secret says nothing to anybody, and is taken as it was made only', async (t) => {
  const { rig } = await open(t)
  const { value, expires_at: expires } = await clientOf(rig).realtime.clientSecrets.create({
    session: { type: 'transcription', audio: { input: { transcription: { language: 'en' } } } },
  })
  t.match(value, /^ek_[\w.-]{100,2000}$/)
  t.notOk(looksLikeKey(value))
  const now = Math.floor(Date.now() / 1000)
  t.ok(Math.abs(expires - now - 600) <= 2, 'ten minutes')
  t.match(openSecret(SECRET_KEYS, value, now), {
    config: { transcription: { language: 'en' } },
    maxSessions: 4,
  })
  t.equal(openSecret(SECRET_KEYS, value, expires), null, 'expired')
  t.equal(openSecret([Buffer.alloc(32, 6)], value, now), null, 'of other keys')
  t.match(openSecret([Buffer.alloc(32, 6), ...SECRET_KEYS], value, now), {}, 'of a key that was replaced')
  for (const bent of [`${value}A`, value.slice(0, -1), value.slice(3), 'ek_', `ek_${'A'.repeat(100_000)}`])
    t.equal(openSecret(SECRET_KEYS, bent, now), null)
})

test('what a secret is asked for is checked when it is made', async (t) => {
  const { rig } = await open(t)
  const refused = async (body: object) => {
    const url = `${rig.origin}/openai/v1/realtime/client_secrets`
    const headers = { authorization: rig.authorization, 'content-type': 'application/json' }
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
    const { error } = (await response.json()) as { error: { code: string; param: string | null } }
    return `${response.status} ${error.code} ${error.param}`
  }
  const session = (transcription: object) => ({
    session: { type: 'transcription', audio: { input: { transcription } } },
  })
  const bad = '400 INVALID_REQUEST'
  t.equal(await refused({ expires_after: { seconds: 9 } }), `${bad} expires_after.seconds`)
  t.equal(await refused({ expires_after: { seconds: 7_201 } }), `${bad} expires_after.seconds`)
  t.equal(await refused({ session: { type: 'realtime', model: 'gpt-realtime' } }), `${bad} session.type`)
  t.equal(await refused({}), `${bad} session`)
  t.equal(await refused({ ...session({}), max_sessions: 0 }), `${bad} max_sessions`)
  t.equal(await refused(session({ prompt: 'a'.repeat(3_000) })), `${bad} session`)
  t.match(await refused(session({ diarization: true })), /^422 REQUIRED_FEATURE_UNAVAILABLE/)
})

test('a secret opens sessions, as many and as long as it may, while its key is in force', async (t) => {
  const { rig, url } = await open(t)
  const { value } = await clientOf(rig).realtime.clientSecrets.create({
    session: { type: 'transcription', audio: { input: { format: { type: 'audio/pcmu' } } } },
    ...{ max_sessions: 1, max_session_seconds: 2 },
  })
  const protocols = ['realtime', `openai-insecure-api-key.${value}`, 'openai-organization.org_1']
  const first = new LiveClient(t, new WebSocket(`${url}?intent=transcription`, protocols))
  t.match(await first.message('session.created'), {
    session: { audio: { input: { format: { type: 'audio/pcmu' } } } },
  })
  t.equal(first.socket.protocol, 'realtime')
  first.send({ type: 'input_audio_buffer.append', audio: Buffer.alloc(800).toString('base64') })
  first.send({ type: 'input_audio_buffer.commit' })
  await first.message('conversation.item.input_audio_transcription.completed')
  t.equal(rig.live.count, 1)

  const byHeader = () =>
    new LiveClient(t, new WebSocket(url, { headers: { authorization: `Bearer ${value}` } }))
  const second = byHeader()
  await second.closed
  t.match(second.refusal, { error: { code: 'RATE_LIMITED', details: { limit: 'max_sessions' } } })
  t.match(await first.message('error'), { error: { code: 'session_expired' } })
  t.equal(await first.closed, 1001)

  const third = byHeader()
  await third.message('session.created')
  third.socket.close()
  await third.closed
  Object.assign(rig.services, { keys: { find: () => undefined } })
  const last = byHeader()
  await last.closed
  t.match(last.refusal, { error: { code: 'UNAUTHENTICATED' } })
})

test('a secret is for the end user of the request that made it, whatever its holder says', async (t) => {
  const { workspace } = principal()
  const spent = { budgetMicros: 0, rateLimit: null }
  const endUsers = {
    isHashed: true,
    terms: { budgetMicros: null, rateLimit: null },
    overrides: new Map([[createEndUserHash([RIG_SECRET])('acme', 'ann'), spent]]),
  }
  const { rig, url } = await open(t, { workspace: { ...workspace, endUsers } })
  const secretFor = async (endUser: string) => {
    const { value } = await clientOf(rig).realtime.clientSecrets.create(
      { session: { type: 'transcription' } },
      { headers: { 'X-LK-End-User': endUser } },
    )
    return value
  }
  const ended = async (authorization: string, endUser: string) => {
    const headers = { authorization, 'x-lk-end-user': endUser }
    const caller = new LiveClient(t, new WebSocket(`${url}?intent=transcription`, { headers }))
    await caller.message('session.created')
    caller.send({ type: 'input_audio_buffer.append', audio: Buffer.alloc(4_800).toString('base64') })
    caller.send({ type: 'input_audio_buffer.commit' })
    const told = ['error', 'conversation.item.input_audio_transcription.completed']
    const first = await Promise.race(told.map((type) => caller.message(type)))
    return (first as { error?: { code: string } }).error?.code ?? 'heard'
  }
  const [ann, ben] = [await secretFor('ann'), await secretFor('ben')]
  t.match(openSecret(SECRET_KEYS, ann, 0)?.endUser, /^eu_/, 'by its hash')
  t.equal(await ended(`Bearer ${ann}`, 'ben'), 'BUDGET_EXCEEDED')
  t.equal(await ended(`Bearer ${ben}`, 'ann'), 'heard')
  t.equal(await ended(rig.authorization, 'ann'), 'BUDGET_EXCEEDED', 'who has the key says for whom')
  t.equal(await ended(rig.authorization, 'ben'), 'heard')
})

test('sessions of another kind are refused, and so is a secret elsewhere', async (t) => {
  const { rig, url } = await open(t)
  const { value } = await clientOf(rig).realtime.clientSecrets.create({ session: { type: 'transcription' } })
  const refusal = async (query: string, authorization = rig.authorization) => {
    const caller = new LiveClient(t, new WebSocket(url + query, { headers: { authorization } }))
    await caller.closed
    return (caller.refusal as { error: object }).error
  }
  t.match(await refusal('?model=gpt-realtime'), { code: 'INVALID_REQUEST', param: 'model' })
  t.match(await refusal('?call_id=rtc_1', `Bearer ${value}`), { param: 'call_id' })
  t.match(await refusal(''), { param: 'intent' })
  t.match(await refusal('?intent=transcription', 'Bearer ek_sealed1.00000000.AAAA'), {
    code: 'UNAUTHENTICATED',
  })
  const response = await fetch(`${rig.origin}/openai/v1/realtime/client_secrets`, {
    method: 'POST',
    headers: { authorization: `Bearer ${value}`, 'content-type': 'application/json' },
    body: '{}',
  })
  t.equal(response.status, 401)

  const told = new LiveClient(
    t,
    new WebSocket(`${url}?model=gpt-realtime&errors=in_band`, ['realtime', 'openai-insecure-api-key.x']),
  )
  t.match(await told.message('error'), { error: { code: 'UNAUTHENTICATED' } })
  t.equal(await told.closed, 1008)
})
