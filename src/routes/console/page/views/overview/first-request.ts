import { html } from '../../html.ts'
import { Code } from '../../parts/code.ts'
import { Section } from '../../parts/page-head.ts'
import { pathOf } from '../../paths.ts'

/** No request within the hour: how to make one. */
export function FirstRequest({ workspace }: { readonly workspace: string | null }) {
  const curl = `curl -s ${location.origin}/v1/transcription \\
  -H "Authorization: Bearer $KEY" \\
  -F file=@hello.wav`
  return html`<${Section} title="No request in the last hour" lead="What is sent shows up here within seconds.">
    <ol class="overview-steps">
      ${
        workspace === null
          ? html`<li>
              <p><a href=${pathOf(null, 'workspaces')}>Choose or create a workspace</a> for the callers.</p>
            </li>`
          : html`<li>
                <p>
                  <a href=${pathOf(workspace, 'routes')}>Publish a route</a> of one or more models, and let${' '}
                  <a href=${pathOf(workspace, 'apps')}>an app</a> lead to it.
                </p>
              </li>
              <li><p><a href=${pathOf(workspace, 'keys')}>Create a key</a> for that app. It is shown once.</p></li>`
      }
      <li>
        <p>
          Send some audio, as below or in${' '}
          ${workspace === null ? 'a playground' : html`the <a href=${pathOf(workspace, 'playground')}>playground</a>`}.
        </p>
        <${Code} text=${curl} title="curl" />
      </li>
    </ol>
  <//>`
}
