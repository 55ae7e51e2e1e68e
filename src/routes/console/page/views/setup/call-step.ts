import { useEffect, useState } from 'preact/hooks'
import type { NewKeyAnswer, RequestAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { milliseconds } from '../../format.ts'
import { html } from '../../html.ts'
import { useAction, useEvery } from '../../load.ts'
import { StatusBadge } from '../../parts/badge.ts'
import { Button, LinkButton } from '../../parts/button.ts'
import { Code } from '../../parts/code.ts'
import { Spinner } from '../../parts/progress.ts'
import { Fault, Note } from '../../parts/states.ts'
import { apiPath, pathOf, queryOf } from '../../paths.ts'
import { firstCallOf } from './first-call.ts'
import { KeyStep } from './key-step.ts'
import type { Standing } from './view.ts'

const EVERY_MS = 1_500
/** Other nodes learn of a new key within that time. */
const KNOWN_WITHIN_MS = 5_000
const AGAIN_AFTER_MS = 500

interface CallStepProps {
  readonly workspace: string
  readonly standing: Standing
  readonly made: NewKeyAnswer | null
  readonly onMade: (key: NewKeyAnswer) => void
}

/** The first request: as a command, and from here; and what became of it. */
export function CallStep({ workspace, standing, made, onMade }: CallStepProps) {
  const { route } = standing.setup
  if (route === null) return null
  const { curl, send } = firstCallOf(route, made?.key ?? null)
  return html`<div class="stack">
    ${
      made === null
        ? html`<p>
            Set <code>LARKWAY_API_KEY</code> to a key of this workspace, or create another one: keys are shown once.
          </p>`
        : html`<${Note} tone="warn">Copy this key now. You won’t see it again.<//>
            <${Code} title="API key" text=${made.key} wrap />`
    }
    <${Code} title="curl" text=${curl} wrap />
    ${
      made === null
        ? html`<details class="more"><summary>Create another key</summary>
            <${KeyStep} workspace=${workspace} standing=${standing} onMade=${onMade} />
          </details>`
        : html`<${Sending} workspace=${workspace} made=${made} send=${send} />`
    }
  </div>`
}

function Sending(props: {
  readonly workspace: string
  readonly made: NewKeyAnswer
  readonly send: (key: string) => Promise<Response>
}) {
  const { workspace, made, send } = props
  const [answer, setAnswer] = useState<{ readonly status: number; readonly text: string } | null>(null)
  const { run, busy, error } = useAction(async () => {
    const untilMs = Date.now() + KNOWN_WITHIN_MS
    let response = await send(made.key)
    while (response.status === 401 && Date.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, AGAIN_AFTER_MS))
      response = await send(made.key)
    }
    setAnswer({ status: response.status, text: pretty(await response.text()) })
  })
  return html`<div class="row">
      <${Button} onClick=${() => run()} busy=${busy}>Send it from here<//>
      <${Arrival} workspace=${workspace} keyId=${made.id} />
    </div>
    <${Fault} error=${error} what="Not sent" />
    ${
      answer === null
        ? null
        : html`<${Code} title=${`Answer, HTTP ${answer.status}`} text=${answer.text} wrap tall />`
    }`
}

/** Waits for the request, wherever it is sent from. */
function Arrival({ workspace, keyId }: { readonly workspace: string; readonly keyId: string }) {
  const [request, setRequest] = useState<RequestAnswer | null>(null)
  const look = async () => {
    const query = queryOf({ key_id: keyId, limit: 1 })
    const path = apiPath`/workspaces/${workspace}/requests`
    const { requests } = await api.get<{ requests: readonly RequestAnswer[] }>(path + query)
    setRequest(requests[0] ?? null)
  }
  // What fails is asked again soon.
  const again = () => void look().catch(() => {})
  useEvery(EVERY_MS, again)
  useEffect(again, [])
  if (request === null) return html`<${Spinner} label="Waiting for the first request" />`
  const by = request.attempts.at(-1)
  return html`<p class="setup-arrived" role="status">
      <${StatusBadge} status=${request.status ?? request.error ?? 'ok'} />
      <span>Request received: <span class="mono">${request.method} ${request.path}</span></span>
      <span class="quiet">
        ${by === undefined ? '' : `${by.provider}/${by.model}, `}${milliseconds(request.milliseconds)}
      </span>
    </p>
    <${LinkButton} small href=${pathOf(workspace, 'requests', request.id)}>View request<//>`
}

/** JSON in lines, with what is long in it cut: an answer may hold audio. */
function pretty(text: string): string {
  try {
    return JSON.stringify(
      JSON.parse(text),
      (_, value) => (isLong(value) ? `${value.slice(0, 80)}…` : value),
      2,
    )
  } catch {
    return text.slice(0, 20_000)
  }
}

function isLong(value: unknown): value is string {
  return typeof value === 'string' && value.length > 400
}
