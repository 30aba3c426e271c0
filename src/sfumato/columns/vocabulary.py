"""What column names mean, in the languages people name columns in.

A name is cut into words (``BirthDate``, ``birth_date`` and ``birth-date`` are alike, accents do
not count) and compared with the words below. Words of six letters or more are also found inside
longer ones (``patientenvorname``).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "MEANINGS",
    "Meaning",
    "Role",
    "meaning_of",
    "words_of",
]


Role = Literal["identifier", "quasi-identifier", "sensitive", "other"]


@dataclass(frozen=True)
class Meaning:
    """One thing a column can be about: the role it then has, what it is, and how it is named."""

    role: Role
    what: str
    names: str
    """Words or phrases (joined by ``_``), separated by blanks."""


MEANINGS = (
    # What people want to keep to themselves comes first: `diagnosis_name` is a diagnosis.
    Meaning(
        "sensitive",
        "health",
        "diagnosis diagnoses diagnose diagnostic diagnostico diagnosi diag icd icd9 icd10 disease "
        "illness krankheit enfermedad maladie malattia ziekte doenca sykdom choroba symptom "
        "symptoms condition comorbidity medication medications medicine medikament medicamento "
        "medicament drug drugs drg treatment therapy therapie terapia procedure hiv aids cancer "
        "tumor tumour diabetes pregnant pregnancy disability disabled handicap behinderung "
        "invalidity blood blood_pressure genotype genetic genome mutation mental psychiatric "
        "depression allergy allergies vaccine vaccination smoker smoking alcohol cause_of_death "
        "death_cause dremissp dphy drem lab_result test_result cholesterol glucose bmi",
    ),
    Meaning(
        "sensitive",
        "money",
        "income salary salaries wage wages earnings pay payment gehalt einkommen lohn verdienst "
        "salario sueldo ingreso ingresos renta revenu revenus salaire reddito stipendio inkomen "
        "loon renda capital_gain capital_loss capitalgain capitalloss debt debts schulden loan "
        "loans credit credits balance wealth assets savings bonus pension tax taxes cost costs "
        "kosten charge charges price billing bill invoice expenses expenditure pincp salary_class",
    ),
    Meaning(
        "sensitive",
        "private life",
        "religion religious faith konfession glaube creed political politics partei vote voted "
        "union_member sexual sexuality orientation sexual_orientation criminal crime offense "
        "offence conviction convictions arrest arrests prison sentence recidivism abuse abortion "
        "grade grades gpa score exam note_finale immigration_status",
    ),
    # Numbers of the survey, not of the person.
    Meaning(
        "other",
        "a statistical weight",
        "fnlwgt wgt pwgtp wgtp pwgt weight_sampling sampling_weight sample_weight instance_weight "
        "survey_weight replicate_weight design_weight hochrechnungsfaktor",
    ),
    # What points at one person.
    Meaning(
        "identifier",
        "a personal number",
        "ssn social_security social_security_number sin sozialversicherungsnummer svnr rvnr nss "
        "numss nir insee dni nie curp rfc cpf codice_fiscale bsn pesel personnummer fodselsnummer "
        "cpr nino nhs nhs_number ahv ahv_nummer aadhaar passport pasaporte passeport reisepass "
        "personalausweis ausweisnummer id_card national_id tax_id steuernummer steuerid taxpayer "
        "itin mrn medical_record record_number patient_number patientennummer fallnummer "
        "case_number insurance_number policy_number versichertennummer kvnr member_id account "
        "account_number kontonummer iban credit_card card_number kreditkarte driver_license "
        "drivers_license fuhrerschein license_plate number_plate kennzeichen vin",
    ),
    Meaning(
        "identifier",
        "a name",
        "firstname first_name lastname last_name surname fullname full_name forename given_name "
        "givenname family_name familyname middle_name maiden_name birth_name nickname vorname "
        "nachname familienname geburtsname nombre nombres apellido apellidos prenom nom "
        "nom_de_famille cognome sobrenome voornaam achternaam fornavn etternavn imie nazwisko "
        "initials patient_name person_name customer_name employee_name",
    ),
    Meaning(
        "identifier",
        "contact data",
        "email e_mail mail mailadresse correo courriel phone telephone telefon telefono tel "
        "telefone mobile mobil handy cell cellphone movil portable fax address adresse direccion "
        "indirizzo endereco adres anschrift street strasse calle rue via_indirizzo house_number "
        "hausnummer pobox",
    ),
    Meaning(
        "identifier",
        "a trace on the net",
        "username user_name login handle twitter instagram facebook url website homepage ip "
        "ip_address ipaddress mac_address imei imsi device_id cookie cookie_id advertising_id uuid "
        "guid photo picture image fingerprint biometric voice",
    ),
    # What others may know.
    Meaning(
        "quasi-identifier",
        "a place",
        "zip zipcode zip_code postcode postal postal_code postleitzahl plz codigo_postal "
        "code_postal cap cep city town village municipality gemeinde ort wohnort stadt ciudad "
        "ville citta cidade plaats county district kreis landkreis bezirk state bundesland "
        "province provincia region country land pais pays paese nation nationality nationalitat "
        "nacionalidad nationalite citizenship staatsangehorigkeit birthplace birth_place "
        "geburtsort native_country residence neighborhood neighbourhood quarter block tract puma "
        "latitude longitude lat lon lng geo location coordinates urbrur density homeland",
    ),
    Meaning(
        "quasi-identifier",
        "birth or age",
        "birth birthday birthdate date_of_birth birth_date birth_year year_of_birth dob yob born "
        "geburtsdatum geburtstag geburtsjahr geboren gebdat fecha_nacimiento nacimiento nascimento "
        "naissance date_naissance nascita data_nascita geboortedatum fodselsdato urodzenia age "
        "alter edad idade eta leeftijd alder wiek agep",
    ),
    Meaning(
        "quasi-identifier",
        "sex",
        "sex gender geschlecht sexo genero sexe genre sesso genere geslacht kjonn plec kon",
    ),
    Meaning(
        "quasi-identifier",
        "origin or language",
        "race ethnicity ethnic ethnie ethnicite etnia raza herkunft ancestry hispanic language "
        "lang sprache muttersprache idioma langue lingua taal migration immigrant tribe caste "
        "rac1p hisp",
    ),
    Meaning(
        "quasi-identifier",
        "family",
        "marital marital_status maritalstatus familienstand estado_civil etat_civil stato_civile "
        "married spouse relationship household household_size haushalt hogar menage children kids "
        "kinder hijos enfants dependents family_size siblings relat msp noc npf hhsize",
    ),
    Meaning(
        "quasi-identifier",
        "work or school",
        "occupation profession job job_title position beruf tatigkeit ocupacion profesion metier "
        "professione beroep employer arbeitgeber employment workclass industry branche hours "
        "hours_per_week education schooling bildung abschluss schulbildung educacion formation "
        "istruzione degree school university college veteran military edu indp occp cow schl dvet",
    ),
    Meaning(
        "quasi-identifier",
        "a date",
        "admission admitted admit admission_date aufnahme aufnahmedatum ingreso_fecha "
        "date_admission discharge discharged entlassung entlassungsdatum visit visit_date "
        "encounter hire_date hired entry_date start_date end_date death death_date date_of_death "
        "todesdatum accident_date event_date date datum fecha data_evento jour",
    ),
    Meaning(
        "quasi-identifier",
        "looks",
        "height body_height weight_kg body_weight groesse grosse taille talla eye_color hair_color "
        "eyes hair car vehicle",
    ),
    Meaning(
        "quasi-identifier",
        "an institution",
        "doctor physician arzt medico medecin hospital klinik krankenhaus clinic ward department "
        "abteilung station unit insurance insurer versicherung krankenkasse payer provider branch "
        "institution teacher",
    ),
    # Left for the end: `city_name` is a place and `state_id` as well.
    Meaning("identifier", "a name", "name namen naam nome"),
    Meaning(
        "identifier",
        "a person's number",
        "id ids identifier identifikator pid uid patient_id person_id customer_id employee_id "
        "subject subject_id respondent serial serialno key nr nummer number numero record",
    ),
    Meaning(
        "identifier",
        "free text",
        "note notes comment comments remark remarks bemerkung bemerkungen anmerkung kommentar "
        "comentario commentaire commento description beschreibung freetext free_text narrative "
        "memo observaciones report_text",
    ),
)  # fmt: skip

_FOUND_INSIDE = 6
"""Letters a word must have to be recognized inside a longer one."""


def words_of(name: str) -> tuple[str, ...]:
    """The words of a column name, in lower case and without accents.

    Examples
    --------
    >>> words_of("BirthDate"), words_of("Année de naissance"), words_of("ZIP_code2")
    (('birth', 'date'), ('annee', 'de', 'naissance'), ('zip', 'code', '2'))
    """
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    plain = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", plain)
    plain = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", plain)
    return tuple(re.findall(r"[^\W\d_]+|\d+", plain.lower()))


def meaning_of(name: str) -> Meaning | None:
    """What a column is about, by its name; None where the name says nothing known.

    Examples
    --------
    >>> meaning_of("Geburtsdatum").what, meaning_of("diagnosis_name").role
    ('birth or age', 'sensitive')
    >>> meaning_of("x17") is None
    True
    """
    words = words_of(name)
    runs = {
        "".join(words[start:end])
        for start in range(len(words))
        for end in range(start + 1, len(words) + 1)
    }
    runs |= {run.removesuffix(plural) for run in runs for plural in ("s", "es")}
    for meaning, known in _KNOWN:
        if runs & known:
            return meaning
    for meaning, known in _KNOWN:
        if any(len(k) >= _FOUND_INSIDE and k in word for word in words for k in known):
            return meaning
    return None


_KNOWN = tuple(
    (meaning, frozenset(name.replace("_", "") for name in meaning.names.split()))
    for meaning in MEANINGS
)
