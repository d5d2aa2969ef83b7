import type { Texts } from './en.ts';

export const texts: Texts = {
  title: 'Połącz swoją skrzynkę',
  asks: (who) => `${who} prosi o dostęp do czytania i wysyłania wiadomości w Twoim imieniu.`,
  privacy: (who) =>
    `Twoje hasło lub logowanie jest przechowywane w postaci zaszyfrowanej. ${who} czyta i wysyła wiadomości za jego pomocą, ` +
    'dopóki skrzynka nie zostanie stąd usunięta albo dopóki nie zmienisz hasła lub nie cofniesz dostępu u swojego dostawcy.',
  language: 'Język',
  moment: 'Chwileczkę…',

  address: 'Adres e-mail',
  password: 'Hasło',
  appPassword: 'Hasło do aplikacji',
  show: 'Pokaż hasło',
  connect: 'Połącz skrzynkę',
  busy: 'Logowanie…',
  cancel: 'Anuluj',
  cancelAndBack: 'Anuluj i wróć',
  back: 'Wróć',
  continueWith: (provider) => `Kontynuuj przez ${provider}`,
  orAppPassword: 'Albo połącz za pomocą hasła do aplikacji:',

  looking: 'Szukamy Twojego dostawcy…',
  lookupFailed: 'Nie udało się ustalić Twojego dostawcy. Spróbuj ponownie.',
  unknownServers: 'Nie znamy serwerów poczty dla tego adresu: wpisz je poniżej. Poda je Twój dostawca albo dział IT.',
  notFoundTitle: 'Nie znaleziono serwerów',
  more: 'Więcej opcji',
  incoming: 'Poczta przychodząca (IMAP)',
  outgoing: 'Poczta wychodząca (SMTP)',
  server: 'Serwer',
  port: 'Port',
  encryption: 'Szyfrowanie',
  none: 'Brak',

  closedTitle: 'Tej skrzynki nie da się połączyć za pomocą hasła',
  closedAdvice: (who) => `Użyj innego adresu albo anuluj i daj znać nadawcy linku (${who}).`,
  closedOther: 'Ten dostawca nie przyjmuje już haseł od innych usług.',
  closed: {
    microsoft:
      'Microsoft nie przyjmuje już haseł do Outlook.com, Hotmail i większości skrzynek Microsoft 365: trzeba zalogować się w ' +
      'serwisie Microsoft.',
    proton: 'Proton Mail szyfruje skrzynki tak, że żadna inna usługa nie może ich odczytać.',
    tuta: 'Tuta szyfruje skrzynki tak, że żadna inna usługa nie może ich odczytać.',
  },
  otherProvider: 'Ta skrzynka jest u innego dostawcy',

  steps: {
    stepsTitle: 'Twój dostawca wymaga hasła do aplikacji',
    imapTitle: 'Najpierw zezwól na dostęp przez IMAP',
    twoStep: 'Włącz weryfikację dwuetapową, jeśli jest wyłączona:',
    open: 'Otwórz tę stronę i zaloguj się:',
    choose: (what) => `Wybierz „${what}”.`,
    create: (name) => `Utwórz nowe hasło do aplikacji. Jeśli trzeba podać nazwę, wpisz „${name}”.`,
    paste: 'Skopiuj je i wklej poniżej. Spacje nie mają znaczenia.',
    switchOn: 'Włącz dostęp przez IMAP i zapisz.',
    then: 'Następnie wpisz poniżej hasło do swojej skrzynki.',
    help: 'Strona pomocy dostawcy',
    icloud: 'Logowanie się i bezpieczeństwo → Hasła do aplikacji',
  },

  failed: 'Nie udało się',
  failures: {
    'errors/invalid_credentials': 'Dostawca nie przyjął tego adresu i hasła. Sprawdź jedno i drugie.',
    'errors/provider_error':
      'Nie udało się połączyć z serwerem poczty albo odpowiedział on inaczej, niż oczekiwano. Spróbuj później.',
    'errors/provider_rejected': 'Dostawca odrzucił połączenie.',
    'errors/already_exists': 'Ta skrzynka jest już połączona przez kogoś innego.',
    'errors/too_many_requests': 'Zbyt wiele prób. Odczekaj minutę.',
    'errors/service_unavailable': 'Usługa jest chwilowo niedostępna. Spróbuj ponownie za chwilę.',
    'errors/not_found': 'Ten link już nie działa. Poproś o nowy.',
    'errors/invalid_parameters': 'Coś w formularzu się nie zgadza. Sprawdź wpisane dane.',
    '': 'Nie można połączyć się z usługą. Sprawdź połączenie i spróbuj ponownie.',
  },
  failedOther: 'Coś poszło nie tak po naszej stronie. Spróbuj ponownie.',
  tryAppPassword:
    'To musi być hasło do aplikacji, utworzone tak, jak opisano powyżej, a nie hasło, którym zwykle się logujesz.',
  tryImap: 'Czy dostęp przez IMAP jest włączony, jak opisano powyżej?',
  details: 'Szczegóły dla pomocy technicznej',
  returned: {
    access_denied: 'Nie udzielono dostępu. Nic nie zostało połączone.',
    other_address: 'Zalogowano się innym adresem niż ten, który ma zostać połączony. Zaloguj się tamtym adresem.',
    invalid_credentials: 'Serwer poczty nie przyjął logowania. Być może IMAP jest wyłączony dla tej skrzynki.',
    provider_rejected: 'Dostawca nie akceptuje obecnie tej usługi. Musi to poprawić osoba, od której masz link.',
    provider_error: 'Nie udało się połączyć z serwerem poczty albo odpowiedział on inaczej, niż oczekiwano.',
    already_exists: 'Ta skrzynka jest już połączona przez kogoś innego.',
    too_many_requests: 'Zbyt wiele prób. Odczekaj minutę.',
    expired: 'Logowanie trwało zbyt długo albo rozpoczęto je w innej przeglądarce. Otwórz link ponownie.',
  },
  returnedOther: 'Logowanie u dostawcy nie powiodło się. Spróbuj ponownie.',

  goneTitle: 'Ten link nie działa',
  goneWhy: 'Być może skopiowano go tylko częściowo albo został wycofany.',
  askNew: (who) => `O nowy link poproś nadawcę: ${who} lub osobę, od której masz ten link.`,
  wrong: 'Coś poszło nie tak',
  doneTitle: 'Skrzynka jest połączona',
  done: 'Gotowe',
  doneText: 'Możesz zamknąć tę stronę.',
  usedTitle: 'Ten link został już użyty',
  usedText: 'Połączono za jego pomocą skrzynkę.',
  expiredTitle: 'Ten link wygasł',
  cancelledTitle: 'Nic nie zostało połączone',
  cancelledText: 'Ten link już nie działa.',
};
