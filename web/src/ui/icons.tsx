const PATHS = {
  overview: 'M4 13h6V4H4zM14 20h6V4h-6zM4 20h6v-3H4z',
  mailboxes: 'M4 6h16v12H4zM4 7l8 6 8-6',
  deliveries: 'M4 12h12m-5-5 5 5-5 5M20 5v14',
  endpoints: 'M9 7a4 4 0 1 0 3 7l3 3a3 3 0 1 0 2-2l-3-3a4 4 0 0 0-5-5z',
  events: 'M3 12h4l3-8 4 16 3-8h4',
  keys: 'M14 10a4 4 0 1 0-3.9 4.9L12 17h2v2h2v2h4v-4l-6.2-6.2A4 4 0 0 0 14 10z',
  audit: 'M6 4h12v16H6zM9 8h6M9 12h6M9 16h3',
  settings: 'M4 7h10M18 7h2M4 17h2M10 17h10M14 4v6M6 14v6',
  documents: 'M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zM9 8h6M9 12h6',
  reference: 'm8 7-5 5 5 5m8-10 5 5-5 5M14 5l-4 14',
  clip: 'm20 11-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7L9.5 17a1.7 1.7 0 0 1-2.4-2.4L15 6.7',
  star: 'm12 3.5 2.6 5.4 5.9.8-4.3 4.1 1 5.8-5.2-2.8-5.2 2.8 1-5.8L3.5 9.7l5.9-.8z',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="1.8"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
