import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { BASE } from '../api/client.ts';

/** A text of the document, with its code between backticks, and links to the pages of docs/ that it names. */
export function Text({ of = '' }: { of?: string | undefined }) {
  return (
    <>
      {of.split(/(`[^`]*`|docs\/[a-z-]+\.md)/).map((part, index) => {
        if (index % 2 === 0) return part;
        if (part.startsWith('`')) return <code key={index}>{part.slice(1, -1)}</code>;
        return (
          <a key={index} href={`${BASE}/${part.replace('.md', '')}`}>
            {part}
          </a>
        );
      })}
    </>
  );
}

/** Content that is made when it is opened: schemas can contain each other. */
export function Fold({ title, children }: { title: string; children: () => ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class="small">{title}</summary>
      {isOpen && children()}
    </details>
  );
}
