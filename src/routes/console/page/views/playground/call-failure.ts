import type { ExplainRow } from '../../../../../gateway/explain.ts'
import type { RequestAnswer } from '../../../api/answers.ts'
import type { ApiError } from '../../api-error.ts'
import { milliseconds } from '../../format.ts'
import { html } from '../../html.ts'
import { Icon } from '../../parts/icon.ts'
import { requestPath } from '../../paths.ts'
import { callAdvice } from './call-advice.ts'

type Attempt = RequestAnswer['attempts'][number]

/** Why a call of `/v1` failed, in the words of its envelope, with what was tried, and what to do next. */
export function CallFailure({ workspace, error }: { readonly workspace: string; readonly error: ApiError }) {
  const { code, status, message, param, details, requestId } = error
  const attempts = listOf<Attempt>(details.attempts)
  const entries = listOf<ExplainRow>(details.entries)
  return html`<div class="play-failure" role="alert">
    <p class="play-failure-title">
      <${Icon} name="alert" />
      <span><span class="mono">${code}</span>${status > 200 ? ` (${status})` : ''}: ${message}</span>
    </p>
    ${param === null ? null : html`<p class="small">Field: <code>${param}</code></p>`}
    <p>${adviceOf(error)}</p>
    ${
      attempts.length === 0
        ? null
        : html`<ol class="play-tried">
            ${attempts.map(
              (one, index) => html`<li key=${index}>
                <span class="mono">${one.provider}/${one.model}</span>: ${one.reason}
                <span class="quiet"> after ${milliseconds(Number(one.milliseconds))}</span>
              </li>`,
            )}
          </ol>`
    }
    ${
      entries.length === 0
        ? null
        : html`<ul class="play-tried">
            ${entries.map(
              (one, index) => html`<li key=${index}>
                <span class="mono">${one.provider}/${one.model}</span>: ${one.detail ?? one.left ?? 'would be taken'}
              </li>`,
            )}
          </ul>`
    }
    ${
      requestId === null
        ? null
        : html`<p class="small">
            <a href=${requestPath(workspace, requestId)}>View request ${requestId}</a>
          </p>`
    }
  </div>`
}

function adviceOf({ code }: ApiError): string {
  if (code === 'UNREACHABLE')
    return 'Check your connection and try again. Files over the limit can also fail like this: try a smaller one.'
  return callAdvice(code)
}

/** What the details hold is as the API made it; anything else is not shown. */
function listOf<Item>(value: unknown): readonly Item[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'object' && item !== null) : []
}
