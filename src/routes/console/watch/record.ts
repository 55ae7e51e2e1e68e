import type { Trail } from '../../../gateway/gateway.ts'
import { newId } from '../../../ids.ts'
import type { Exchange } from '../../../inbound/exchange.ts'
import type { RequestRecord } from '../../../schema/console.ts'
import type { Job } from '../../../schema/jobs.ts'
import { errorOf, loggedFacts } from '../../logged-facts.ts'
import { recordedFailure } from './recorded-failure.ts'

/** An exchange as far as it is recorded. */
export type WatchedExchange = Pick<
  Exchange,
  'requestId' | 'method' | 'pattern' | 'status' | 'elapsedMs' | 'bodyMs' | 'receivedBytes' | 'sentBytes'
>

/** A job as far as its runs are recorded. */
export type WatchedJob = Pick<Job, 'id' | 'requestId' | 'workspace' | 'app' | 'keyId'>

/**
 * What the console shows of a request that is over: what its line in the log says, no more.
 *
 * @param addedMs null: nobody looked when its answer was there
 */
export function requestRecord(
  exchange: WatchedExchange,
  trail: Trail,
  addedMs: number | null,
): RequestRecord {
  const { requestId, method, pattern, status, elapsedMs, receivedBytes, sentBytes } = exchange
  const { workspace = '', app = '', key_id: keyId = '', ...called } = calledFacts(trail)
  return {
    recordId: newId('rec'),
    id: requestId,
    atMs: Date.now(),
    workspace,
    app,
    keyId,
    method,
    path: pattern ?? '',
    status,
    error: errorOf(exchange, trail) ?? null,
    failure: trail.failure && recordedFailure(trail.failure),
    milliseconds: Math.round(elapsedMs),
    addedMs: addedMs === null ? null : Math.round(addedMs * 100) / 100,
    receivedBytes,
    sentBytes,
    jobId: trail.jobId,
    replayed: trail.replayed,
    ...called,
  }
}

/** What it shows of a run of a job. What this node itself took is not told apart: it works on several at a time. */
export function runRecord(job: WatchedJob, trail: Trail, milliseconds: number): RequestRecord {
  const { workspace: _, app: __, key_id: ___, ...called } = calledFacts(trail)
  return {
    recordId: newId('rec'),
    id: job.requestId,
    atMs: Date.now(),
    workspace: job.workspace,
    app: job.app,
    keyId: job.keyId,
    method: 'RUN',
    path: 'job',
    status: null,
    error: trail.failure?.code ?? null,
    failure: trail.failure && recordedFailure(trail.failure),
    milliseconds: Math.round(milliseconds),
    addedMs: null,
    receivedBytes: 0,
    sentBytes: 0,
    jobId: job.id,
    replayed: false,
    ...called,
  }
}

function calledFacts(trail: Trail) {
  const facts = loggedFacts(trail)
  return {
    workspace: facts.workspace,
    app: facts.app,
    key_id: facts.key_id,
    route: facts.route ?? null,
    policyVersionId: facts.policy_version_id ?? null,
    attempts: facts.attempts ?? [],
    usage: facts.usage ?? null,
    costUsd: facts.cost_usd ?? null,
  }
}
