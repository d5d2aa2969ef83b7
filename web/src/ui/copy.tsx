import { toast } from './toast.tsx';

/** Copies a value. Where the browser refuses, it says what to do. */
export function CopyButton({ value, label }: { value: string; label: string }) {
  const copy = async (button: HTMLElement) => {
    const isCopied = await (navigator.clipboard as Clipboard | undefined)?.writeText(value).then(
      () => true,
      () => false,
    );
    const done = isCopied || copySelected(value, button);
    toast(done ? `${label} copied` : `Select the ${label.toLowerCase()} and copy it`);
  };
  return (
    <button type="button" class="button small copy" onClick={(event) => void copy(event.currentTarget)}>
      Copy<span class="visually-hidden"> {label}</span>
    </button>
  );
}

/** Copies without the clipboard API, which pages have over HTTPS only. Beside the button: a dialog makes all else inert. */
function copySelected(value: string, button: HTMLElement): boolean {
  const field = document.createElement('textarea');
  field.value = value;
  field.className = 'visually-hidden';
  button.after(field);
  field.select();
  const isCopied = document.execCommand('copy');
  field.remove();
  button.focus();
  return isCopied;
}

/** An id or an address with a copy button. */
export function Copied({ value, label }: { value: string; label: string }) {
  return (
    <span class="copied">
      <code class="wrap">{value}</code> <CopyButton value={value} label={label} />
    </span>
  );
}

/** JSON with buttons that copy it and save it as a file. */
export function JsonText({ value, label, file }: { value: unknown; label: string; file: string }) {
  const text = JSON.stringify(value, null, 2);
  const save = () => {
    const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
    const link = Object.assign(document.createElement('a'), { href: url, download: `${file}.json` });
    link.click();
    // a moment later, since the browser reads it after this task
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return (
    <div class="stack-s">
      <div class="row">
        <CopyButton value={text} label={label} />
        <button type="button" class="button small" onClick={save}>
          Download JSON
        </button>
      </div>
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
    </div>
  );
}
