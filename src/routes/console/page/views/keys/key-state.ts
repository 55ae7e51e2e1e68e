import type { KeyAnswer } from '../../../api/answers.ts'

export type KeyState = 'active' | 'ends soon' | 'expired' | 'revoked'

/** A key ends soon within it, or within the last tenth of its life where that is shorter. */
const SOON_MS = 7 * 24 * 3_600_000

export function keyState(
  key: Pick<KeyAnswer, 'revoked_at' | 'expires_at' | 'created_at'>,
  nowMs: number,
): KeyState {
  if (key.revoked_at !== null) return 'revoked'
  if (key.expires_at === null) return 'active'
  const endsMs = Date.parse(key.expires_at)
  const lifeMs = key.created_at === null ? Infinity : endsMs - Date.parse(key.created_at)
  const leftMs = endsMs - nowMs
  return leftMs <= 0 ? 'expired' : leftMs < Math.min(SOON_MS, lifeMs / 10) ? 'ends soon' : 'active'
}
