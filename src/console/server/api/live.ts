import { type Static, Type } from 'typebox'
import type { LiveSample } from '../../../contracts/console.ts'
import { endSession } from '../../../gateway/admin/live.ts'
import { timestamp } from '../../../gateway/api/json-reply.ts'
import type { LiveSessionAnswer, LiveSessionsAnswer } from '../answers/live.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint, scopeOf, WorkspaceField } from '../endpoint.ts'
import { keyNames } from './keys.ts'
import { type NodeHistory, RECENT_MS } from './node-history.ts'

const PATH = '/live'
const ONE = '/workspaces/:workspace/live/:session'
/** As many as a page shows. */
const SESSIONS_MAX = 200

const Query = Type.Object({ workspace: WorkspaceField })

/** The open live sessions of one workspace or of all, and ending one. */
export function liveEndpoints(context: ConsoleContext, history: NodeHistory): ConsoleRoute[] {
  return [
    consoleEndpoint(context, 'GET', PATH, { query: Query }, (call) => listSessions(call, history)),
    consoleEndpoint(context, 'POST', `${ONE}/end`, {}, (call) => endOne(call, history)),
  ]
}

/** This node's as they are now, others' as of their last sample, some seconds ago. */
async function listSessions(
  call: ConsoleCall<typeof PATH, unknown, Static<typeof Query>>,
  history: NodeHistory,
): Promise<LiveSessionsAnswer> {
  const { context, viewer } = call
  const scope = scopeOf(call)
  const { live } = context.deps
  const nameOfKey = await keyNames(context)
  const isOperator = viewer.role === 'operator'
  const answer = (node: string, sample: LiveSample): LiveSessionAnswer => ({
    id: sample.id,
    workspace: sample.workspace,
    app: sample.app,
    key_id: sample.keyId,
    key_name: nameOfKey(sample.keyId),
    route: sample.route,
    entry: sample.entry,
    started_at: timestamp(sample.startedAtMs),
    kind: sample.characters === undefined ? 'transcription' : 'speech',
    audio_seconds: sample.characters === undefined ? sample.audioSeconds : null,
    characters: sample.characters ?? null,
    switches: sample.switches,
    cost_usd: sample.costUsd,
    node: isOperator ? node : null,
  })
  const latest = history.latest(await history.samples(RECENT_MS))
  const others = latest.filter(({ node }) => node !== context.nodeName)
  const all = [
    ...live.samples().map((sample) => answer(context.nodeName, sample)),
    ...others.flatMap(({ node, live: theirs }) =>
      (theirs?.sessions ?? []).map((sample) => answer(node, sample)),
    ),
  ]
  const wanted = all.filter(({ workspace }) => scope === null || workspace === scope)
  const newest = wanted.sort((one, other) => other.started_at.localeCompare(one.started_at))
  const isCut = others.some(
    ({ live: theirs }) => theirs !== undefined && theirs.open > theirs.sessions.length,
  )
  return { sessions: newest.slice(0, SESSIONS_MAX), is_cut: isCut || newest.length > SESSIONS_MAX }
}

async function endOne(
  { context, viewer, params }: ConsoleCall<`${typeof ONE}/end`, unknown, unknown>,
  history: NodeHistory,
) {
  const { workspace, session: id } = params
  const { live, services } = context.deps
  const ofOtherNodes = async () =>
    history.latest(await history.samples(RECENT_MS)).flatMap(({ live: theirs }) => theirs?.sessions ?? [])
  const { sessionEnds } = context.state
  await endSession(
    viewer.actor,
    { id, workspace },
    { state: context.admin.state, live, sessionEnds, ofOtherNodes, clock: services.clock },
  )
  return {}
}
