import type { Test } from 'tap'
import { serveHttp } from './http-server.ts'

/** A target of webhooks. */
export interface Bell {
  /** As a webhook's URL. */
  readonly url: string
  /** Job id → what it was told of the job, in order. */
  readonly told: ReadonlyMap<string, readonly string[]>
  /** How long it takes to answer, ms. */
  answerAfterMs: number
}

/** Receives the webhooks of real processes until the test ends. */
export async function startBell(t: Pick<Test, 'teardown'>): Promise<Bell> {
  const told = new Map<string, string[]>()
  const bell = { url: '', told, answerAfterMs: 0 }
  const origin = await serveHttp(t, (request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (chunk) => {
      text += chunk
    })
    request.on('end', () => {
      const { job_id: id, status } = JSON.parse(text) as { job_id: string; status: string }
      told.set(id, [...(told.get(id) ?? []), status])
      setTimeout(() => response.end('ok'), bell.answerAfterMs)
    })
  })
  bell.url = `${origin}/jobs`
  return bell
}
