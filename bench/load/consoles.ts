import { Agent, type Dispatcher } from 'undici'
import { answerTasks } from './task.ts'

/** How often a page that is looked at asks for what it shows. */
const EVERY_MS = 5_000

/** Opens consoles, or closes those that are open. */
export type ConsolesTask =
  | {
      readonly open: number
      readonly port: number
      /** Key of an operator. */
      readonly key: string
      readonly workspace: string
    }
  | 'close'

export interface ConsolesReport {
  readonly polls: number
  readonly failures: number
  readonly firstFailure: string | null
}

/** A page that a user looks at. */
interface Console {
  close(): Promise<void>
}

const report = { polls: 0, failures: 0, firstFailure: null as string | null }
let consoles: readonly Console[] = []

answerTasks<ConsolesTask, ConsolesReport>(async (task) => {
  if (task === 'close') {
    await Promise.all(consoles.map((one) => one.close()))
    consoles = []
  } else {
    Object.assign(report, { polls: 0, failures: 0, firstFailure: null })
    const numbers = Array.from({ length: task.open }, (_, number) => number)
    consoles = await Promise.all(numbers.map((number) => openConsole(task, number)))
  }
  return { ...report }
})

/** Signs in, and asks from then on as the pages of the overview and of the requests do; each at another moment. */
async function openConsole(task: Exclude<ConsolesTask, 'close'>, number: number): Promise<Console> {
  const { open, port, key, workspace } = task
  const origin = `http://127.0.0.1:${port}`
  const agent = new Agent({ connections: 2 })
  const cookie = await signIn(agent, origin, key)
  const ask = (path: string) => askFor(agent, origin, `/console/api${path}`, cookie)
  let sinceMs = 0
  const poll = async () => {
    const [overview] = await Promise.all([
      ask(`/overview?workspace=${workspace}&since=${sinceMs}`),
      ask(`/workspaces/${workspace}/requests?limit=50`),
    ])
    const steps = (overview as { steps: { at_ms: number }[] } | null)?.steps ?? []
    sinceMs = steps.at(-1)?.at_ms ?? sinceMs
  }
  await poll()
  let polling: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout
  const again = () => {
    polling = poll()
    timer = setTimeout(again, EVERY_MS)
  }
  timer = setTimeout(again, (EVERY_MS * number) / open)
  return {
    async close() {
      clearTimeout(timer)
      await polling
      await agent.close()
    },
  }
}

async function signIn(agent: Agent, origin: string, key: string): Promise<string> {
  const { statusCode, headers, body } = await agent.request({
    origin,
    path: '/console/api/session',
    method: 'POST',
    headers: { 'content-type': 'application/json', origin, 'sec-fetch-site': 'same-origin' },
    body: JSON.stringify({ key }),
  })
  const text = await body.text()
  const cookie = String(headers['set-cookie'] ?? '').split(';')[0]
  if (statusCode !== 200 || !cookie) throw new Error(`sign-in: ${statusCode} ${text.slice(0, 200)}`)
  return cookie
}

/** @returns what was answered; null: a failure, which is counted */
async function askFor(agent: Agent, origin: string, path: string, cookie: string): Promise<unknown> {
  report.polls += 1
  try {
    const answer: Dispatcher.ResponseData = await agent.request({
      ...{ origin, path, method: 'GET', headers: { cookie, 'sec-fetch-site': 'same-origin' } },
    })
    const text = await answer.body.text()
    if (answer.statusCode === 200) return JSON.parse(text)
    throw new Error(`${path}: ${answer.statusCode} ${text.slice(0, 200)}`)
  } catch (error) {
    report.failures += 1
    report.firstFailure ??= (error as Error).message
    return null
  }
}
