import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import { usageRecord } from '../support/chat-usage.ts'
import { Dice } from '../support/dice.ts'
import { lakeOf, putRecords } from '../support/usage-lake.ts'

const HOUR_MS = 3_600_000
const DAYS = 30

const MODELS = [
  { operation: 'chat', provider: 'openai', model: 'gpt-4o-mini', endpoint: 'POST /v1/chat', micros: 300 },
  { operation: 'chat', provider: 'anthropic', model: 'claude-haiku', endpoint: 'POST /v1/chat', micros: 900 },
  {
    operation: 'transcription',
    provider: 'deepgram',
    model: 'nova-3',
    endpoint: 'POST /v1/transcription',
    micros: 4_300,
  },
  {
    operation: 'transcription',
    provider: 'house',
    model: 'morse-1',
    endpoint: 'POST /v1/transcription',
    micros: 1_000,
  },
  { operation: 'speech', provider: 'elevenlabs', model: 'flash', endpoint: 'POST /v1/speech', micros: 2_000 },
] as const

const FAILURES = [
  { status: 502, error_code: 'UPSTREAM_ERROR' },
  { status: 504, error_code: 'UPSTREAM_TIMEOUT' },
  { status: 400, error_code: 'INVALID_REQUEST' },
  { status: 429, error_code: 'RATE_LIMITED' },
] as const

/**
 * Thirty days of records up to a moment: calls of the workspaces `acme` and `other`, the newest hours among them, with
 * more by day than by night. The same seed gives the same records.
 */
export function usageMonth(nowMs: number, { seed = 7, perHour = 4 } = {}): UsageRecord[] {
  const dice = new Dice(seed)
  const hours = DAYS * 24
  return Array.from({ length: hours * perHour }, (_, at) => {
    const endedAt = Math.floor(nowMs - ((at + 1) / (hours * perHour + 1)) * hours * HOUR_MS)
    return recordAt(at, endedAt, dice)
  })
}

function recordAt(at: number, endedAt: number, dice: Dice): UsageRecord {
  const { micros, ...served } = dice.one(MODELS)
  const isAcme = !dice.chance(0.25)
  const failure = dice.chance(0.06) ? dice.one(FAILURES) : null
  const total = 120 + dice.below(1_400)
  const [isAudio, isSpeech] = [served.operation === 'transcription', served.operation === 'speech']
  const isChat = served.operation === 'chat'
  return usageRecord({
    ...served,
    record_id: `use_month_${at}`,
    request_id: `req_month_${at}`,
    workspace: isAcme ? 'acme' : 'other',
    app: isAcme ? dice.one(['web', 'phone', 'hotline']) : 'web',
    key_id: isAcme ? dice.one(['key_admin', 'key_app']) : 'key_foreignAdmin',
    end_user: dice.chance(0.5) ? `user-${dice.below(12)}` : null,
    purpose: dice.chance(0.3) ? 'notes' : null,
    route: isAcme ? 'voice' : 'other-voice',
    started_at: endedAt - total,
    ended_at: endedAt,
    input_tokens: isChat ? dice.below(2_000) : null,
    output_tokens: isChat ? dice.below(600) : null,
    audio_seconds: isAudio ? dice.below(180_000) : null,
    billable_audio_seconds: isAudio ? dice.below(180_000) : null,
    characters: isSpeech ? dice.below(900) : null,
    cost_usd: failure === null ? 1 + dice.below(2 * micros) : null,
    total_ms: total,
    first_ms: isChat ? Math.floor(total / 3) : null,
    outcome: failure === null ? 'ok' : 'error',
    status: failure?.status ?? 200,
    error_code: failure?.error_code ?? null,
  })
}

/** Puts records into the data folder of a node, as one that had served them would have. */
export async function putUsage(dataFolder: string, records: readonly UsageRecord[]): Promise<void> {
  const objects = await createFileObjects(dataFolder)
  await putRecords(lakeOf(objects), records, 'seg_month')
  await objects.close()
}
