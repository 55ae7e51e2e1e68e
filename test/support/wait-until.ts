import { setTimeout as sleep } from 'node:timers/promises'

const STEP_MS = 20

/**
 * Asks until the answer is yes.
 *
 * @param stepMs between two questions; longer where a question is dear
 * @returns false when it never was within `timeoutMs`
 */
export async function waitUntil(
  isSo: () => boolean | Promise<boolean>,
  timeoutMs = 10_000,
  stepMs = STEP_MS,
): Promise<boolean> {
  const deadlineMs = performance.now() + timeoutMs
  for (;;) {
    if (await isSo()) return true
    if (performance.now() > deadlineMs) return false
    await sleep(stepMs)
  }
}
