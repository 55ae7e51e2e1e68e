import type { ConsoleSession, NodeSample, RequestFilter, RequestRecord } from '../../src/contracts/console.ts'
import { newId } from '../../src/contracts/ids.ts'
import { newDigest } from './state-under-test.ts'

/** A request as the console keeps it: one that went well. */
export function requestRecord(workspace: string, over: Partial<RequestRecord> = {}): RequestRecord {
  return {
    recordId: newId('rec'),
    id: newId('req'),
    atMs: 1_900_000_000_000,
    workspace,
    app: 'web',
    keyId: 'key_one',
    method: 'POST',
    path: '/v1/transcription',
    status: 200,
    error: null,
    milliseconds: 812.25,
    addedMs: 1.5,
    receivedBytes: 26_214_400,
    sentBytes: 412,
    route: 'acme.voice',
    policyVersionId: 'pv_1',
    jobId: null,
    replayed: false,
    attempts: [
      { provider: 'one', model: 'whisper-1', status: 503, milliseconds: 20, reason: 'it is overloaded' },
      { provider: 'two', model: 'whisper-1', status: 200, milliseconds: 780, reason: 'ok' },
    ],
    usage: { audio_seconds: 63.5, audio_input_tokens: null },
    costUsd: 0.000875,
    ...over,
  }
}

export function requestFilter(workspace: string, over: Partial<RequestFilter> = {}): RequestFilter {
  return {
    ...{ workspace, outcome: null, path: null, app: null, keyId: null, jobId: null, requestId: null },
    ...{ beforeMs: null, afterMs: null },
    limit: 50,
    ...over,
  }
}

export function nodeSample(node: string, atMs: number, over: Partial<NodeSample> = {}): NodeSample {
  return {
    node,
    atMs,
    stepMs: 5000,
    memoryUsedBytes: 1024,
    memoryLimitBytes: 268_435_456,
    inFlight: 3,
    breakers: [{ workspace: 'acme', route: 'acme.voice', provider: 'one', model: 'm', state: 'open' }],
    attempts: [['one', 'm', 9, 1]],
    all: { requests: 10, errors: 1, addedP50Ms: 1, addedP95Ms: 2.5, upstream: [] },
    workspaces: [
      {
        workspace: 'acme',
        requests: 10,
        errors: 1,
        addedP50Ms: null,
        addedP95Ms: 2.5,
        upstream: [{ provider: 'one', calls: 9, failed: 1, p50Ms: 20.5, p95Ms: 80 }],
      },
    ],
    ...over,
  }
}

/** A session of a key, without an idle limit unless `more` says so. */
export function consoleSession(more: Partial<ConsoleSession> = {}): ConsoleSession {
  const keySha256 = newDigest()
  const common = { id: newDigest(), keySha256, person: null, holder: `key:${keySha256}` }
  const from = { address: '2001:db8::7', browser: 'Firefox 145 on Linux' }
  return { ...common, csrfToken: 'token', idleMs: null, ...from, ...more }
}
