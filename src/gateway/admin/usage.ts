import type { CancelSignal } from '../../contracts/cancellation.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { GROUPS_MAX, TooManyGroups, type UsageAnswer, type UsageQuestion } from '../../usage/answer.ts'
import type { UsageReader } from '../../usage/reader.ts'
import type { UsageReport } from '../../usage/report.ts'
import { invalidField } from '../edge/refusals.ts'
import type { AdminActor } from './actor.ts'
import { readUsageQuestion, type UsageInput } from './usage-question.ts'

/** The parts that answer questions about usage. */
export interface UsageAdminContext {
  readonly reader: UsageReader
  readonly nowMs: () => number
  /** Up to when the records of all nodes are in the store; 0: unknown. */
  readonly completeUntilMs: () => Promise<number>
}

/** Questions that a workspace may have under way, of the 32 that a node takes: it keeps places for the others. */
const QUESTIONS_MAX = 8
const RETRY_MS = 1_000

/** How many questions each workspace has under way, by who answers them. */
const underWay = new WeakMap<UsageReader, Map<string, number>>()

/**
 * Answers a question of usage: to admins of their workspace, to operators of all.
 *
 * @param signal aborted when the caller leaves: the question is not asked, or no longer
 * @throws GatewayError INVALID_REQUEST naming the parameter, NOT_FOUND for another workspace, DEPENDENCY_UNAVAILABLE,
 *   RATE_LIMITED while its workspace has many under way
 */
export async function askUsage(
  actor: AdminActor,
  input: UsageInput,
  context: UsageAdminContext,
  signal?: CancelSignal,
): Promise<UsageReport> {
  const question = usageQuestion(actor, input, context)
  // Before the store is looked at, which may have more by then.
  const untilMs = await context.completeUntilMs()
  const answer = await answerUsage(actor, question, context, signal)
  return {
    question,
    answer,
    completeUntilMs: Math.min(question.toMs, Math.max(question.fromMs, untilMs)),
  }
}

/**
 * Asks something of the usage of a workspace.
 *
 * @throws as `ask`; GatewayError RATE_LIMITED while the workspace of an admin has many questions under way
 */
export async function inPlaceOf<Answer>(
  { role, workspace }: AdminActor,
  { reader }: Pick<UsageAdminContext, 'reader'>,
  ask: () => Promise<Answer>,
): Promise<Answer> {
  if (role === 'operator' || workspace === null) return ask()
  const counts = underWay.get(reader) ?? new Map<string, number>()
  underWay.set(reader, counts)
  const count = counts.get(workspace) ?? 0
  if (count >= QUESTIONS_MAX) {
    const message = `${QUESTIONS_MAX} questions of this workspace are under way`
    throw new GatewayError('RATE_LIMITED', message, { retryAfterMs: RETRY_MS })
  }
  counts.set(workspace, count + 1)
  try {
    return await ask()
  } finally {
    const left = (counts.get(workspace) ?? 1) - 1
    if (left > 0) counts.set(workspace, left)
    else counts.delete(workspace)
  }
}

/**
 * The question that an input is, of the actor's own workspace alone.
 *
 * @throws GatewayError INVALID_REQUEST naming the parameter, NOT_FOUND for another workspace
 */
export function usageQuestion(
  actor: AdminActor,
  input: UsageInput,
  { nowMs }: Pick<UsageAdminContext, 'nowMs'>,
): UsageQuestion {
  return ofActor(actor, readUsageQuestion(input, nowMs()))
}

/**
 * Answers a question that is of the actor's own workspace already.
 *
 * @throws GatewayError INVALID_REQUEST for too many groups, DEPENDENCY_UNAVAILABLE, RATE_LIMITED as `inPlaceOf`
 */
export async function answerUsage(
  actor: AdminActor,
  question: UsageQuestion,
  context: Pick<UsageAdminContext, 'reader'>,
  signal?: CancelSignal,
): Promise<UsageAnswer> {
  return inPlaceOf(actor, context, () => refusingTooMany(context.reader.ask(question, signal)))
}

async function refusingTooMany<Answers>(answers: Promise<Answers>): Promise<Answers> {
  try {
    return await answers
  } catch (error) {
    if (!(error instanceof TooManyGroups)) throw error
    throw invalidField('by', `makes over ${GROUPS_MAX} groups: ask for less at a time`)
  }
}

function ofActor({ role, workspace }: AdminActor, question: UsageQuestion): UsageQuestion {
  if (role === 'operator') return question
  if (workspace === null) throw new GatewayError('INTERNAL', 'an admin without a workspace')
  const { where } = question
  if (where.workspace?.some((named) => named !== workspace))
    throw new GatewayError('NOT_FOUND', 'there is no such workspace', { param: 'workspace' })
  return { ...question, where: { ...where, workspace: [workspace] } }
}
