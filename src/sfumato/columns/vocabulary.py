"""What words of column names mean, in the languages people name columns in.

Names are compared with them by `sfumato.columns.content.meaning_of`. What people keep to themselves
comes before the rest: `tax_id` is a number, `hospital_cost` is money. Abbreviations of the large
surveys are in `sfumato.columns.codebooks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["identifier", "quasi-identifier", "sensitive", "other"]


@dataclass(frozen=True)
class Meaning:
    """One thing a column can be about: the role it then has, what it is, and how it is named."""

    role: Role
    what: str
    names: str = ""
    """Words or phrases (joined by ``_``), separated by blanks."""
    kind: str | None = None
    """The letter of HIPAA's list, see `sfumato.columns.recognise.KINDS`."""
    form: str | None = None
    """How the law lets such values stay: ``zip``, ``date``, ``birth date``, ``age``."""


WEIGHT = "a weight"
"""Of the sample or of the body: the numbers must decide."""

MEANINGS = (
    # Fields of the file, which only phrases and unmistakable words name.
    Meaning(
        "other",
        "a statistical weight",
        "fnlwgt wgt wght wgtp pwgtp pwgt weight_sampling sampling_weight sample_weight wt_sample "
        "instance_weight survey_weight replicate_weight design_weight person_weight final_weight "
        "household_weight expansion_factor weighting_factor hochrechnungsfaktor gewichtungsfaktor "
        "ponderacion factor_expansion poids weights analysis_weight cross_sectional_weight "
        "longitudinal_weight post_stratification_weight instance_weights hhweight perwt hhwt wtfa",
    ),
    Meaning(
        "other",
        "a field of the file",
        "record_type rectype resource_type meta version_id last_updated created_at updated_at "
        "modified_at imported_at load_date etl file_name filename file_date source_file batch_id "
        "schema checksum hash row_hash active_flag imputed imputation allocation_flag edit_flag "
        "quality_flag data_quality type_concept_id adjustment_factor inflation_factor replicate "
        "dupcount dup_count duplicate stratum strata psu sdmvpsu sdmvstra cluster_size "
        "interview_result interview_status result_code response_status data_status survey_year "
        "survey_wave wave interview_mode resmode unit_concept_id status_reason "
        "verification_status sample_number split fold train_test uom warning "
        "redcap_event_name redcap_repeat_instance redcap_data_access_group",
    ),
    Meaning(
        "other",
        "a product or thing",
        "product product_id product_name product_code product_line productline sku stock_code "
        "stockcode item item_id item_name item_code article article_id category sub_category "
        "subcategory brand ship_mode shipping_mode quantity quantity_ordered qty units unit_price "
        "price_each msrp deal_size dealsize order_line_number order_quantity in_stock lot_number "
        "elevation slope aspect hillshade soil soil_type wilderness cover_type temperature "
        "humidity wind rainfall pixel pixels onpix width horizontal_distance vertical_distance "
        "distance_to_hydrology voltage sensor hydrology roadways list_price unit_cost",
    ),
    # What people want to keep to themselves comes before what others may know.
    Meaning(
        "sensitive",
        "health",
        "diagnosis diagnoses diagnose diagnostic diagnostico diagnosi diag diag1 diag2 icd icd9 "
        "icd10 snomed loinc cpt disease illness krankheit enfermedad maladie malattia ziekte "
        "doenca sykdom choroba symptom symptoms condition conditions comorbidity comorbidities "
        "medication medications medicine medikament medicamento medicament drug drugs drg "
        "treatment treatments treated trt therapy therapie terapia procedure procedures hiv aids "
        "sti std cancer tumor tumour diabetes diabetic insulin pregnant pregnancy disability "
        "disabled handicap behinderung invalidity blood blood_pressure blood_group genotype "
        "genetic genome mutation mental psychiatric depression anxiety allergy allergies vaccine "
        "vaccination immunization smoker smoking smoke smokes tobacco alcohol drinking "
        "cause_of_death death_cause dremissp dphy drem lab_result test_result cholesterol glucose "
        "bmi health healthcare gesundheit salud sante salute injury injuries injured stroke heart "
        "heart_rate heart_attack hypertension asthma arthritis kidney liver lung obesity chronic "
        "hemoglobin haemoglobin creatinine sodium potassium albumin platelets bilirubin "
        "cholesterol_level triglycerides urea hba1c a1c lab labs laboratory biopsy stage staging "
        "tumor_grade nodes karnofsky karno ecog metastasis metastatic chemo chemotherapy "
        "radiation radiotherapy surgery surgical transplant dose dosage hormone menopause "
        "menopausal menostat estrogen progesterone systolic diastolic sysbp diasbp bp pulse "
        "vital_status death_status survival survived mortality died fatal contraception "
        "contraceptive contraceptives abortion fertility sexual_partners domestic_violence "
        "violence suicide self_harm injury_claim bodily_injury bodily_injuries hospitalization "
        "hospitalized hospitalisation readmitted readmission emergency_visits nhs_treatment "
        "care_plan sick_days sick_leave impairment hearing_difficulty vision_difficulty "
        "difficulty_walking reason_code reason_description body_site bodysite modality "
        "condition_concept condition_concept_id drug_concept_id procedure_concept_id "
        "measurement_concept_id observation_concept_id condition_source_value drug_source_value "
        "value_as_number value_as_concept_id value_quantity clinical_status medication_code "
        "observation_code birth_weight apgar weight_loss wt_loss gestation gestational anemia "
        "anaemia malaria hepatitis covid wheelchair medikation blutdruck raucher glu serum hdl "
        "ldl wbc rbc egfr psa crp tsh chol ecg ekg metformin histology cell_type celltype "
        "injury_severity vitals hospital_stay prescription prescriptions sepsis ventilation "
        "oxygen seizure dementia esrd chf copd ckd cad cncr alzheimer hospital_expire expired phq "
        "gad mmse moca alc inj inj_sev rx surg node histol relapse remission lymph",
    ),
    Meaning(
        "sensitive",
        "money",
        "income incomes salary salaries wage wages earnings earning pay payment payments gehalt "
        "einkommen lohn verdienst salario sueldo ingreso ingresos renta revenu revenus salaire "
        "reddito stipendio inkomen loon renda capital_gain capital_loss capitalgain capitalloss "
        "capital_gains capital_losses debt debts schulden loan loans credit credits credit_amount "
        "credit_score balance wealth assets asset savings saving sparen bonus pension pensions "
        "tax taxes cost costs kosten charge charges price billing bill bills billed "
        "invoice_amount expenses expense expenditure expend pincp salary_class sales revenue "
        "profit turnover umsatz discount amount total_amount betrag montant importe spend spent "
        "spending fare premium premiums claim claims claim_amount deductible deductable "
        "coverage_amount umbrella_limit limit credit_limit mortgage rent rental miete alquiler "
        "loyer dividends dividend interest_income stocks money finance finances financial benefit "
        "benefits welfare social_assistance food_stamps unemployment_benefits allowance "
        "allowances alimony poverty poverty_ratio default defaulted bankruptcy overdue arrears "
        "installment installments purchase_amount transaction_amount donation grant stipend "
        "scholarship property_value house_value home_value net_worth fraud fraud_reported "
        "income_quintile income_decile wealth_index wealth_quintile monthly_rate daily_rate "
        "hourly_rate stock_option stock_option_level percent_salary_hike fin ltv total_charges "
        "monthly_charges revolving revol delinquency delinq chargeoff amnt pymnt annual_inc "
        "int_rate interest_rate dti fico recoveries debtors checking_account credit_history "
        "property_claim account_balance bal assessed_value",
    ),
    Meaning(
        "sensitive",
        "private life",
        "religion religious faith konfession glaube creed political politics partei party vote "
        "voted voting ballot union_member labor_union trade_union union_membership sexual "
        "sexuality orientation sexual_orientation criminal crime crimes offense offence felony "
        "conviction convictions convicted arrest arrests arrested prison prisoner jail parole "
        "paro sentence recidivism recid priors priors_count prior_offenses misdemeanor "
        "charge_degree abuse grade grades gpa score scores exam exam_score test_score note_finale "
        "immigration_status asylum performance_rating satisfaction job_satisfaction "
        "relationship_satisfaction attrition opinion attitude belief beliefs churn churned",
    ),
    # What points at one person.
    Meaning(
        "identifier",
        "social security numbers",
        "ssn social_security social_security_number sin_number sozialversicherungsnummer svnr "
        "rvnr nss numss nir insee dni nie curp rfc cpf codice_fiscale bsn pesel personnummer "
        "fodselsnummer cpr nino nhs nhs_number national_insurance_number ahv ahv_nummer aadhaar "
        "national_id id_card personalausweis ausweisnummer tax_id steuernummer steuerid taxpayer "
        "itin soc_sec socsec social_security_no ssnum",
        kind="G",
    ),
    Meaning(
        "identifier",
        "medical record numbers",
        "mrn medical_record medical_record_number patient_id patient_number patient_no patient_nr "
        "patient_nbr patient_key patient_identifier patientennummer patid pat_id fallnummer "
        "chart_number chart_no encounter_id encounter_num visit_id admission_id hadm_id hadm "
        "icustay_id subject_id record_number accession_number case_number visit_occurrence_id "
        "specimen_id medrec med_rec_no",
        kind="H",
    ),
    Meaning(
        "identifier",
        "health plan numbers",
        "member_id member_number beneficiary beneficiary_id bene_id desynpuf_id policy_number "
        "policy_id policy_no policynumber subscriber subscriber_id plan_id plan_number "
        "medicare_number medicaid_number mbi hicn insurance_number insurance_id insurance_no "
        "health_plan_number group_number versichertennummer kvnr insured_id claim_id claim_number",
        kind="I",
    ),
    Meaning(
        "identifier",
        "account numbers",
        "account account_number account_no account_id acct acct_no kontonummer iban bic "
        "credit_card card_number card_no kreditkarte cc_num ccnum billing_number bank_account "
        "invoice_number routing_number bank_account_number invoice_no invoiceno order_id "
        "order_number ordernumber orderno transaction_id transaction_number loan_id ticket "
        "ticket_number booking_reference",
        kind="J",
    ),
    Meaning(
        "identifier",
        "certificate and licence numbers",
        "license_number licence_number license_no licence_no license licence certificate_number "
        "driver_licence driver_license drivers_license drivers_licence drivers fuhrerschein "
        "dea_number npi passport passport_number passport_no pasaporte passeport reisepass "
        "certificate_id permit_number",
        kind="K",
    ),
    Meaning(
        "identifier",
        "vehicle identifiers",
        "vin vehicle_id vehicle_identification vehicle_identification_number license_plate "
        "licence_plate plate_number plate_no number_plate kennzeichen vehicle_serial "
        "registration_plate matricula",
        kind="L",
    ),
    Meaning(
        "identifier",
        "device identifiers",
        "device_id device_serial serial_number_device udi imei imsi mac_address implant_serial "
        "device_identifier pacemaker_id serial_number meter_id",
        kind="M",
    ),
    Meaning(
        "identifier",
        "names",
        "firstname first_name lastname last_name surname fullname full_name forename forenames "
        "given_name givenname family_name familyname middle_name maiden_name maiden birth_name "
        "nickname vorname nachname familienname geburtsname nombre nombres apellido apellidos "
        "prenom nom nom_de_famille cognome sobrenome voornaam achternaam fornavn etternavn imie "
        "nazwisko initials patient_name person_name customer_name employee_name client_name "
        "member_name contact_name next_of_kin emergency_contact user_full_name name_family "
        "name_given passenger_name fname lname mother_name father_name spouse_name guardian_name "
        "student_name insured_name cardholder payee",
        kind="A",
    ),
    Meaning("identifier", "fax numbers", "fax telefax fax_number", kind="E"),
    Meaning(
        "identifier",
        "telephone numbers",
        "phone telephone telefon telefono tel telefone mobile mobil handy cell_phone cellphone "
        "movil telecom pager phone_number telephone_number mobile_number contact_number "
        "home_phone work_phone telefonnummer handynummer",
        kind="D",
    ),
    Meaning(
        "identifier",
        "e-mail addresses",
        "email e_mail mail mailadresse mail_address email_address correo courriel emailaddress",
        kind="F",
    ),
    Meaning(
        "identifier",
        "web addresses",
        "url website homepage web_address uri twitter instagram facebook linkedin social_media "
        "web_page profile_url twitter_handle handle",
        kind="N",
    ),
    Meaning(
        "identifier",
        "internet protocol addresses",
        "ip ip_address ipaddress ip_addr ipaddr ipv4 ipv6 client_ip remote_addr",
        kind="O",
    ),
    Meaning(
        "identifier",
        "biometric identifiers",
        "fingerprint fingerprints voiceprint voice_print finger_print biometric biometrics "
        "iris_scan iris_code retina_scan face_encoding face_template palm_print voice faceprint "
        "gait_signature dna_profile",
        kind="P",
    ),
    Meaning(
        "identifier",
        "photographs",
        "photo photograph photos portrait headshot mugshot picture image avatar foto bild selfie",
        kind="Q",
    ),
    Meaning(
        "identifier",
        "a street address",
        "address adresse direccion indirizzo endereco adres anschrift street strasse calle rue "
        "via_indirizzo house_number hausnummer pobox addressline address_line street_address "
        "home_address address_line1 addr street_name apartment incident_location cabin domicile",
        kind="B",
    ),
    Meaning(
        "identifier",
        "a user's name or token",
        "username user_name login login_name user_id userid uuid guid barcode device_token cookie "
        "cookie_id advertising_id session_id person_source_value token person_id",
        kind="R",
    ),
    # What others may know.
    Meaning(
        "quasi-identifier",
        "a postal code",
        "zip zipcode zip_code zip5 zip3 postcode post_code postal postal_code postleitzahl plz "
        "codigo_postal code_postal cap cep postalcode zcta address_postal_code address_zip",
        kind="B",
        form="zip",
    ),
    Meaning(
        "quasi-identifier",
        "a birth date",
        "birthday birthdate date_of_birth birth_date dob born geburtsdatum geburtstag gebdat "
        "geboren fecha_nacimiento fecha_de_nacimiento nacimiento nascimento data_nascimento "
        "naissance date_naissance date_de_naissance nascita data_nascita geboortedatum "
        "fodselsdato urodzenia birth_datetime birth_dt bdate birth",
        kind="C",
        form="birth date",
    ),
    Meaning(
        "quasi-identifier",
        "a birth year",
        "birth_year year_of_birth yob geburtsjahr ano_nacimiento annee_naissance geboortejaar "
        "birthyear year_birth yearofbirth",
        kind="C",
        form="birth year",
    ),
    Meaning(
        "quasi-identifier",
        "a part of a date",
        "birth_month month_of_birth birth_day day_of_birth birth_quarter quarter_of_birth "
        "geburtsmonat admission_month discharge_month death_month death_day month_of_death "
        "deathmon deathday month_of_admission day_of_week_admission",
        kind="C",
    ),
    Meaning(
        "quasi-identifier",
        "an age",
        "age ages alter edad idade eta leeftijd alder wiek agep age_group age_in_years ageyears "
        "agegrp age_band altersgruppe age_at_death age_at_diagnosis age_at_admission ageatvisit "
        "age_months age_in_months onset_age",
        kind="C",
        form="age",
    ),
    Meaning(
        "quasi-identifier",
        "a small area",
        "city town village municipality gemeinde ort wohnort stadt ciudad ville citta cidade "
        "plaats county district kreis landkreis bezirk precinct parish borough neighborhood "
        "neighbourhood census_tract census_block census_block_group block_group puma fips "
        "birthplace birth_place place_of_birth geburtsort hometown latitude longitude lat lon lng "
        "geo geocode geohash location coordinates gps msa city_code place_of_work "
        "address_city addr_city canton comune concelho municipio commune arrondissement "
        "location_id lsoa msoa ward_code zone subregion area_code",
        kind="B",
    ),
    Meaning(
        "quasi-identifier",
        "a place",
        "state bundesland province provincia region country land pais pays paese nation "
        "nationality nationalitat nacionalidad nationalite citizenship citizen "
        "staatsangehorigkeit native_country urbrur urban rural density homeland territory "
        "division continent country_of_birth region_code state_code country_code sunbelt "
        "birth_country birth_state birth_region "
        "domicile_state population_density degree_of_urbanisation embarked destination origin "
        "departamento market store_location address_state addr_state address_country address_type",
    ),
    # behind the states: `state of previous residence` is one
    Meaning("quasi-identifier", "a residence", "residence residency resid", kind="B"),
    Meaning(
        "quasi-identifier",
        "sex",
        "sex gender geschlecht sexo genero sexe genre sesso genere geslacht kjonn plec kon "
        "riagendr gender_concept_id male female",
    ),
    Meaning(
        "quasi-identifier",
        "origin or language",
        "race races ethnicity ethnic ethnie ethnicite etnia etni raza herkunft ancestry hispanic "
        "latino language lang languages sprache muttersprache idioma langue lingua taal migration "
        "migrant immigrant immigration tribe caste rac1p hisp nativity race_concept_id "
        "ethnicity_concept_id mother_tongue year_of_immigration foreign_worker native",
    ),
    Meaning(
        "quasi-identifier",
        "family",
        "marital marital_status maritalstatus marstat marital_stat familienstand estado_civil "
        "etat_civil stato_civile civil_status hhcivil married spouse relationship relat household "
        "household_size household_type haushalt haushaltsgroesse hogar menage children child kids "
        "kinder hijos enfants dependents dependants family family_size family_members siblings "
        "sibsp parch parents parent mother father msp noc npf hhsize hh_size hsize num_children "
        "number_of_children n_children partner cohabiting twins birth_order multiple_birth "
        "insured_relationship family_status home_ownership housing house_type dwelling rooms "
        "bedrooms tenure_status own_rent own_home homeowner roof walls floor water_source toilet "
        "electricity electcon internet_access vehicles cars_owned pets head_of_household widowed "
        "divorced prefix suffix title people_liable numyoung numold personal_status",
    ),
    Meaning(
        "quasi-identifier",
        "work or school",
        "occupation occupational occu profession job job_title job_role jobrole position beruf "
        "tatigkeit ocupacion profesion metier professione beroep employer arbeitgeber employment "
        "employed unemployed unemployment employment_status workclass class_of_worker labor_force "
        "labour_force worker worked work work_hours weeks_worked hours_worked industry branche "
        "sector hours hours_per_week working_hours education educational educ edu education_level "
        "schooling bildung abschluss schulbildung educacion formation istruzione degree school "
        "university college enrolled enroll enrollment major field_of_study education_field "
        "veteran military business business_travel company naics isco isic nace soc_code "
        "years_at_company total_working_years years_in_current_role self_employed commute "
        "distance_from_home travel_time num_companies_worked full_time part_time fulltime "
        "parttime student studies literacy literate retired manager experience years_experience "
        "work_experience wexp edu_inst present_employment pclass seniority",
    ),
    Meaning(
        "quasi-identifier",
        "a date",
        "admission admitted admit admission_date aufnahme aufnahmedatum ingreso_fecha "
        "date_admission discharge discharged discharge_date entlassung entlassungsdatum visit "
        "visit_date visit_start_date visit_end_date encounter encounter_date hire_date hired "
        "entry_date start_date end_date start_year end_year start_time end_time death death_date "
        "deathdate date_of_death todesdatum accident_date event_date event_datetime date datum "
        "fecha data_evento jour datetime timestamp order_date orderdate ship_date invoice_date "
        "invoicedate incident_date purchase_date signup_date registration_date policy_bind_date "
        "service_date onset_date diagnosis_date procedure_date year_id month_id qtr_id visit_year "
        "admission_year sample_yr incident_hour time_of_day deceased month day_of_week weekday",
        kind=None,
        form="date",
    ),
    Meaning(
        "quasi-identifier",
        "looks or habits",
        "height body_height weight_kg body_weight groesse grosse taille talla eye_color "
        "hair_color eyes hair car vehicle hobby hobbies sport sports auto_make auto_model "
        "auto_year car_model car_make veh_make",
    ),
    Meaning(
        "quasi-identifier",
        "an institution",
        "hospital klinik krankenhaus clinic ward department abteilung station unit insurance "
        "insurer versicherung krankenkasse payer branch institution inst instit teacher "
        "organization organisation managing_organization care_site care_site_id facility center "
        "centre site shop store agency club practice ownership segment customer_segment channel",
    ),
    Meaning(
        "quasi-identifier",
        "a member of staff",
        "doctor physician surgeon nurse provider attending clinician therapist prescriber "
        "practitioner radiologist arzt medico medecin interviewer provider_id "
        "general_practitioner operator salesperson agent",
    ),
    # Left for the end: `city_name` is a place and `state_id` as well.
    Meaning("identifier", "a name", "name names namen naam nome", kind="A"),
    Meaning(
        "identifier",
        "a person's number",
        "id ids identifier identifikator pid uid person_id customer_id customer_no "
        "customer_number kundennummer client_id employee_id employee_number emp_id student_id "
        "passenger_id participant_id respondent_id case case_id caseid seqn seqno subject "
        "respondent participant patient person customer client serial serialno serial_no sno "
        "srno sl_no key nr nummer number numero record row_id rownum row_number index_number "
        "household_id hh_id hhid hid ori_hid hhnum household_number family_id pnr matrikelnummer "
        "personalnummer nbr study_id",
        kind="R",
    ),
    Meaning(
        "identifier",
        "free text",
        "note notes comment comments remark remarks bemerkung bemerkungen anmerkung kommentar "
        "comentario commentaire commento description beschreibung freetext free_text narrative "
        "memo observaciones report_text message review feedback complaint text transcript sig",
    ),
    Meaning("other", WEIGHT, "weight weights gewicht peso gewichtung wt"),
    Meaning(
        "other",
        "a duration",
        "time futime follow_up followup fu_time duration elapsed week weeks days survival_time "
        "lenfol pdays time_to_event followup_time survival_months survival_days length_of_stay",
    ),
    Meaning(
        "other",
        "a property of a case",
        "status type campaign severity outcome mode available contacted witnesses counts version "
        "channel_type priority queue",
    ),
)

FILLERS = frozenset(
    {
        *("of", "the", "in", "at", "by", "for", "from", "to", "per", "num", "number", "no", "code"),
        *("codes", "cat", "type", "stat", "status", "level", "group", "grp", "date", "year"),
        *("month", "day", "time", "count", "total", "max", "min", "avg", "first", "last", "new"),
        *("old", "prev", "previous", "current", "main", "self", "other", "contact", "customer"),
        *("client", "home", "line", "own", "young", "kind", "reg", "rec", "recode", "desc"),
        *("value", "amount", "ordered", "order", "each", "annual", "monthly", "yearly", "net"),
        *("gross", "disposable"),
    }
)
