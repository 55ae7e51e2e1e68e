import type { RouteFields } from '../../../../../catalog/file.ts'
import { plural } from '../../format.ts'
import { html } from '../../html.ts'
import { type DiffRow, diffBlocks, diffLines } from './line-diff.ts'
import { routeText } from './route-text.ts'

/** Two states of a route side by side, as the file would have them; below one another where there is no room. */
export function FieldsDiff(props: {
  readonly before: RouteFields | null
  readonly after: RouteFields | null
  /** Whose each side is. */
  readonly names: readonly [before: string, after: string]
}) {
  const { before, after, names } = props
  const rows = diffLines(before && routeText(before), after && routeText(after))
  const blocks = diffBlocks(rows, 3)
  if (blocks.length === 0) return html`<p class="quiet">No differences.</p>`
  return html`<div class="table-scroll routes-diff" role="region" aria-label="Differences" tabindex="0">
    <table>
      <caption class="hidden">Differences between ${names[0]} and ${names[1]}</caption>
      <thead>
        <tr>
          <th scope="col">${names[0]}</th>
          <th scope="col">${names[1]}</th>
        </tr>
      </thead>
      ${blocks.map(
        ({ skipped, rows: near }, index) => html`<tbody key=${index}>
          ${
            skipped > 0
              ? html`<tr class="routes-diff-skipped"><td colspan="2">${plural(skipped, 'line')} alike</td></tr>`
              : null
          }
          ${near.map((row, at) => html`<${Row} key=${at} ...${row} />`)}
        </tbody>`,
      )}
    </table>
  </div>`
}

function Row({ kind, before, after }: DiffRow) {
  const side = (text: string | null, sign: string, word: string) => html`<td
    class=${text === null ? 'routes-diff-none' : kind === 'same' ? '' : `routes-diff-${word}`}
  >
    ${
      text === null
        ? null
        : html`<code><span aria-hidden="true">${kind === 'same' ? ' ' : sign} </span>${
            kind === 'same' ? null : html`<span class="hidden">${word}: </span>`
          }${text}</code>`
    }
  </td>`
  return html`<tr class=${kind === 'same' ? 'routes-diff-same' : ''}>
    ${side(before, '−', 'removed')}${side(after, '+', 'added')}
  </tr>`
}
